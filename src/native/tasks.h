// How a call is cut into tasks for threads. A task is one model and a range of samples, outputs or
// input features; the kernels sum within a range only, so no result depends on the ranges.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel.h"

namespace kandle {

// Less work than this many (sample, edge) pairs is done before another thread would have started.
inline constexpr std::int64_t kWorthSharing = 16384;

// The (sample, edge) pairs of a call.
template <class Args>
std::int64_t layer_work(const Args& args) {
  return args.models * args.n * args.n_in * args.n_out;
}

struct Tasks {
  std::int64_t items, parts, count;

  // One range per model where there are models enough for all threads, else one per thread.
  Tasks(std::int64_t models, std::int64_t items, std::int64_t threads)
      : items(items),
        parts(std::clamp<std::int64_t>(models >= 4 * threads ? 1 : threads, 1,
                                       std::max<std::int64_t>(items, 1))),
        count(models * parts) {}

  std::int64_t model(std::int64_t task) const { return task / parts; }
  Range range(std::int64_t task) const {
    const std::int64_t part = task % parts;
    return {items * part / parts, items * (part + 1) / parts};
  }
};

// The tasks of a layer's forward pass. Each packs the weights that it uses: where rows are few and
// outputs many, that is most of the work, and tasks take outputs instead of samples.
template <class T>
struct ForwardTasks {
  static constexpr std::int64_t kFewRows = 1024, kManyOutputs = 256, kUnit = 64;

  const JetArgs<T>& args;
  const bool over_outputs;
  const Tasks tasks;

  ForwardTasks(const JetArgs<T>& args, std::int64_t threads)
      : args(args),
        over_outputs(args.n < kFewRows && args.n_out >= kManyOutputs),
        tasks(args.models, over_outputs ? (args.n_out + kUnit - 1) / kUnit : args.n, threads) {}

  std::int64_t count() const { return tasks.count; }

  void run(const Kernels<T>& kernels, std::int64_t task) const {
    const Range range = tasks.range(task);
    const Range samples = over_outputs ? Range{0, args.n} : range;
    const Range outputs = over_outputs
                              ? Range{kUnit * range.begin, std::min(kUnit * range.end, args.n_out)}
                              : Range{0, args.n_out};
    kernels.jet_forward(args, tasks.model(task), samples, outputs);
  }
};

}  // namespace kandle
