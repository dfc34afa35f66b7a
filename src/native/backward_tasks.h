// How the backward pass of a layer is cut into tasks: over input features or over samples.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "kernel.h"
#include "tasks.h"

namespace kandle {

// Features are the rule: no sum crosses them. But threads that share the features of a short row
// write to the same cache lines of dx, again and again at the same time, and most of the work is
// then moving those lines from core to core. Layers with short rows are cut into chunks of samples,
// whose gradients of the weights are added up in order. Number and size of the chunks depend on the
// layer alone, so results do not depend on threads, on other models or on which gradients are
// wanted here either.
template <class T>
class BackwardTasks {
 public:
  BackwardTasks(const JetArgs<T>& args, std::int64_t threads)
      : args_(args),
        chunks_(chunk_count(args)),
        parts_(chunks_ == 1                 ? Tasks(args.models, args.n_in, threads).parts
               : args.models >= 4 * threads ? 1
                                            : chunks_) {
    if (chunks_ == 1) return;
    partial_.reset(new T[args.models * chunks_ * size()]);
    done_.reset(new std::atomic<std::int64_t>[args.models]);
    for (std::int64_t model = 0; model < args.models; ++model) done_[model] = 0;
  }

  // Whether the layer is cut into chunks of samples.
  static bool over_samples(const JetArgs<T>& args) { return chunk_count(args) > 1; }

  std::int64_t count() const { return args_.models * parts_; }

  void run(const Kernels<T>& kernels, std::int64_t task) const {
    const std::int64_t model = task / parts_, part = task % parts_;
    if (chunks_ == 1) {
      kernels.jet_backward(args_, model, first_feature(part), first_feature(part + 1));
    } else if (parts_ == 1) {
      for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) run_chunk(kernels, model, chunk);
      add_up(model);
    } else {
      run_chunk(kernels, model, part);
      if (done_[model].fetch_add(1, std::memory_order_acq_rel) + 1 == chunks_) add_up(model);
    }
  }

 private:
  // Long ranges of features begin where a cache line of inputs does.
  std::int64_t first_feature(std::int64_t part) const {
    constexpr std::int64_t kUnit = 16, kLong = 8 * kUnit;
    const std::int64_t at = args_.n_in * part / parts_;
    return part < parts_ && args_.n_in >= kLong * parts_ ? at / kUnit * kUnit : at;
  }

  static constexpr std::int64_t kCacheLine = 64, kLeastSamples = 1024, kChunks = 2,
                                kMostOutputs = 1024;

  static std::int64_t chunk_count(const JetArgs<T>& a) {
    const bool short_rows = a.n_in * static_cast<std::int64_t>(sizeof(T)) < 2 * kCacheLine;
    // Adding up the gradients of very many outputs would take more than the cache lines do.
    const bool few_weights = a.n_out <= kMostOutputs;
    if (!short_rows || !few_weights || a.first > 0) return 1;
    return a.n < kLeastSamples ? 1 : kChunks;
  }

  std::int64_t edges() const { return args_.n_in * args_.n_out; }
  std::int64_t basis() const { return args_.spline.grid + args_.spline.degree; }
  // Of dr, dc, db and dbias together.
  std::int64_t size() const { return edges() * (2 + basis()) + args_.n_out; }

  void run_chunk(const Kernels<T>& kernels, std::int64_t model, std::int64_t chunk) const {
    const std::int64_t begin = args_.n * chunk / chunks_, end = args_.n * (chunk + 1) / chunks_;
    JetArgs<T> a = args_;
    a.models = 1, a.n = end - begin;
    a.x = {args_.x.at(model) + begin * args_.n_in, 0};
    a.g = {args_.g.at(model) + begin * args_.n_out, 0};
    a.r = {args_.r.at(model), 0}, a.c = {args_.c.at(model), 0}, a.b = {args_.b.at(model), 0};
    if (args_.want_x) a.dx = args_.dx + (model * args_.n + begin) * args_.n_in;
    if (args_.want_w) {
      a.dr = partial_.get() + (model * chunks_ + chunk) * size();
      a.dc = a.dr + edges(), a.db = a.dc + edges(), a.dbias = a.db + edges() * basis();
    }
    kernels.jet_backward(a, 0, 0, args_.n_in);
  }

  void add_up(std::int64_t model) const {
    if (!args_.want_w) return;
    const T* from = partial_.get() + model * chunks_ * size();
    const auto sum = [&](T* to, std::int64_t count) {
      for (std::int64_t j = 0; j < count; ++j) {
        T total = from[j];
        for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) total += from[chunk * size() + j];
        to[model * count + j] = total;
      }
      from += count;
    };
    sum(args_.dr, edges()), sum(args_.dc, edges());
    sum(args_.db, edges() * basis()), sum(args_.dbias, args_.n_out);
  }

  const JetArgs<T>& args_;
  const std::int64_t chunks_, parts_;
  std::unique_ptr<T[]> partial_;  // (models, chunks, size)
  std::unique_ptr<std::atomic<std::int64_t>[]> done_;
};

}  // namespace kandle
