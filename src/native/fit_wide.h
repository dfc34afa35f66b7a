// A layer of cubics with more than one vector of outputs, or with many cells, on one block of
// samples, forward and back: lanes run over outputs, and samples are sorted by cell (sorted.h),
// once for both passes.
#pragma once

#include <algorithm>

#include "fit_points.h"
#include "scratch.h"
#include "sorted.h"
#include "weights.h"

#if KANDLE_AVX512

namespace kandle {
namespace KANDLE_ISA {

template <class T>
class FitWide {
 public:
  static constexpr int L = kLanes<T>;

  FitWide(const JetArgs<T>& a, std::int64_t block)
      : args_(a),
        block_(block),
        n_cells_(cell_count(a.spline)),
        rows_(1 + n_cells_ + kCubicDegree),
        pitch_(round_up(a.n_out, L)),
        points_(a, block) {}

  // Numbers that packed weights and tables take, and those that the sums of a chunk take.
  std::int64_t memory() const {
    return weights_size() + pitch_ + points_.memory() + args_.n_in * sorted_size();
  }
  std::int64_t kept() const { return weights_size() + pitch_; }

  void pack(std::int64_t model, T* memory) {
    weights_ = memory, bias_ = weights_ + weights_size();
    points_.place(bias_ + pitch_);
    sorted_ = bias_ + pitch_ + points_.memory();
    std::fill(std::copy_n(args_.bias.at(model), args_.n_out, bias_), bias_ + pitch_, T(0));
    for (std::int64_t i = 0; i < args_.n_in; i += kFeatures)
      load_weights<T, L>(args_, model, tile(i), kCubicDegree, weights_ + i * feature());
  }

  // y[o][s] of the points x[i][s]; `count` is a multiple of L.
  void forward(const T* x, std::int64_t count, T* y) const {
    T* rows = scratch<T, 2>(block_ * pitch_);
    std::int32_t* cells = scratch<std::int32_t, 3>(block_);
    for (std::int64_t s = 0; s < count; ++s) std::copy_n(bias_, pitch_, rows + s * pitch_);
    for (std::int64_t i = 0; i < args_.n_in; ++i) {
      points_.tabulate(i, x, count, cells);
      sort_cells(cells, count, n_cells_, order(i));
      for_vectors<4>([&](std::int64_t o, auto vectors) {
        add_sorted<T, L, vectors()>(sorted(i), weights_ + i * feature() + o, pitch_, rows + o,
                                    pitch_);
      });
    }
    for (std::int64_t o = 0; o < args_.n_out; o += L)
      load_columns<T, L>(rows + o, pitch_, count, std::min<std::int64_t>(L, args_.n_out - o),
                         y + o * block_, block_);
  }

  // Adds to the sums of the weights, or stores them if they are `fresh`, and stores dx[i][s],
  // unless null, from g[o][s].
  void backward(const T* g, std::int64_t count, bool fresh, T* sums, T* dx) const {
    T* rows = scratch<T, 2>(block_ * (pitch_ + L));  // strip by strip, (samples, outputs of it)
    T* lanes = rows + block_ * pitch_;
    for_vectors<kStrip>([&](std::int64_t o, auto vectors) {
      constexpr int C = vectors(), W = C * L;
      T* strip = rows + o * count;
      if (args_.n_out < o + W) std::fill_n(strip, count * W, T(0));
      for (std::int64_t v = 0; v < W && o + v < args_.n_out; v += L)
        store_columns<T, L>(g + (o + v) * block_, block_, count,
                            std::min<std::int64_t>(L, args_.n_out - o - v), strip + v, W);
      add_bias<C>(strip, count, fresh, sums + weights_size() + o);
    });
    for (std::int64_t i = 0; i < args_.n_in; ++i) {
      const SortedGradients<T, L> gradients(sorted(i), count, pitch_);
      for_vectors<kStrip>([&](std::int64_t o, auto vectors) {
        const auto add = [&](auto inputs, auto first) {
          gradients.template add<vectors(), true, inputs(), first()>(
              weights_ + i * feature() + o, rows + o * count, fresh, sums + i * feature() + o,
              lanes);
        };
        constexpr std::true_type yes;
        constexpr std::false_type no;
        if (!dx) return add(no, yes);
        o == 0 ? add(yes, yes) : add(yes, no);
      });
      if (dx) sum_lanes<T, L>(lanes, count, points_.inverse(), false, dx + i * block_);
    }
  }

  // From sums to gradients, tile by tile of features. The bias comes after the last one.
  std::int64_t parts() const { return (args_.n_in + kFeatures - 1) / kFeatures; }
  Range kept_of(std::int64_t part) const {
    const Tile own = tile(part * kFeatures);
    const std::int64_t end = (own.feature + own.features) * feature();
    return {own.feature * feature(), part + 1 < parts() ? end : kept()};
  }
  void finish(std::int64_t model, std::int64_t part, const T* sums) const {
    const Tile own = tile(part * kFeatures);
    store_gradients<T, L>(args_, model, own, kCubicDegree, sums + own.feature * feature());
    if (part + 1 == parts())
      std::copy_n(sums + weights_size(), args_.n_out, args_.dbias + model * args_.n_out);
  }

 private:
  using V = Simd<T, L>;
  using Vec = typename V::Vec;
  static constexpr int kStrip = 2;  // vectors of outputs whose sums stay in registers

  std::int64_t feature() const { return rows_ * pitch_; }  // numbers of its rows
  std::int64_t weights_size() const { return args_.n_in * feature(); }
  std::int64_t starts_at() const { return CellOrder::room(block_) * 2; }  // bytes of the order
  std::int64_t sorted_size() const {
    return round_up(starts_at() + (n_cells_ + 1) * 4, 64) / static_cast<std::int64_t>(sizeof(T));
  }

  CellOrder order(std::int64_t i) const {
    char* at = reinterpret_cast<char*>(sorted_ + i * sorted_size());
    return {reinterpret_cast<std::uint16_t*>(at),
            reinterpret_cast<std::int32_t*>(at + starts_at())};
  }
  SortedPoints<T> sorted(std::int64_t i) const {
    const CellOrder at = order(i);
    return {at.order, at.starts, n_cells_, points_.rows(i)};
  }

  // Calls work(first output, vectors) for pieces of up to `Most` vectors.
  template <int Most, class Work>
  void for_vectors(const Work& work) const {
    for (std::int64_t o = 0; o < pitch_; o += Most * L)
      with_count<Most>(std::min<std::int64_t>(Most, (pitch_ - o) / L),
                       [&](auto vectors) { work(o, vectors); });
  }

  static constexpr std::int64_t kFeatures = kTileFeatures<T>;
  Tile tile(std::int64_t i) const {
    return {i, std::min(kFeatures, args_.n_in - i), 0, args_.n_out, rows_, pitch_};
  }

  template <int C>
  static void add_bias(const T* rows, std::int64_t count, bool fresh, T* sums) {
    for (int c = 0; c < C; ++c) {
      // Four sums: shorter chains, and smaller rounding errors.
      Vec sum[4] = {};
      for (std::int64_t s = 0; s < count; s += 4)
        for (int j = 0; j < 4; ++j) sum[j] += V::load(rows + ((s + j) * C + c) * L);
      const Vec all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
      V::store(sums + c * L, fresh ? all : V::load(sums + c * L) + all);
    }
  }

  const JetArgs<T>& args_;
  const std::int64_t block_, n_cells_, rows_, pitch_;
  FitPoints<T> points_;
  T *weights_, *bias_, *sorted_;  // weights and orders [feature]
};

}  // namespace KANDLE_ISA
}  // namespace kandle

#endif  // KANDLE_AVX512
