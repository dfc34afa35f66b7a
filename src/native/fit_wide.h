// A layer of cubics with more than one vector of outputs on one block of samples, forward and back.
//
// Lanes run over outputs, in strips of up to two vectors, and every cell has one row of a strip per
// Taylor coefficient (taylor.h). The samples of a block are sorted by the cell of every feature, so
// that the coefficients of a cell, and the sums of its moments, stay in registers for all of them.
#pragma once

#include <algorithm>

#include "fit_points.h"
#include "lookup.h"
#include "scratch.h"
#include "sort_cells.h"
#include "taylor.h"
#include "weights.h"

#if KANDLE_AVX512

namespace kandle {
namespace KANDLE_ISA {

template <class T>
class FitWide {
 public:
  static constexpr int L = kLanes<T>;
  static constexpr std::int64_t kBlock = FitPoints<T>::kBlock;

  explicit FitWide(const JetArgs<T>& a)
      : args_(a),
        points_(a),
        inverse_(Cells<T>(a.spline).inverse),
        n_cells_(cell_count(a.spline)),
        rows_(1 + kRows * n_cells_) {}

  // Numbers that packed weights, sums and tables take, and those that are kept of a chunk.
  std::int64_t memory() const {
    const std::int64_t sorted = args_.n_in * static_cast<std::int64_t>(sizeof(SortedCells));
    return 2 * (args_.n_in * rows_ + 1) * pitch() + points_.memory() +
           round_up(sorted, 64) / static_cast<std::int64_t>(sizeof(T));
  }
  std::int64_t kept() const { return (args_.n_in * (1 + n_cells_ + kCubicDegree) + 1) * pitch(); }

  void pack(std::int64_t model, T* memory) {
    weights_ = memory;
    bias_ = weights_ + args_.n_in * rows_ * pitch();
    sums_ = bias_ + pitch();
    T* tables = sums_ + (args_.n_in * rows_ + 1) * pitch();
    points_.place(tables);
    sorted_ = reinterpret_cast<SortedCells*>(tables + points_.memory());
    std::fill_n(bias_, pitch(), T(0));
    std::copy_n(args_.bias.at(model), args_.n_out, bias_);
    for_strips([&](std::int64_t o, auto vectors) {
      constexpr int W = vectors() * L;
      T* out = weights_ + o * args_.n_in * rows_;
      for_tiles(o, W, [&](const Tile& tile) {
        const std::int64_t size = tile.rows * W;
        T* weights = scratch<T, 4>(tile.features * size);
        load_weights<T, L>(args_, model, tile, kCubicDegree, weights);
        for (std::int64_t f = 0; f < tile.features; ++f, out += rows_ * W) {
          std::copy_n(weights + f * size, W, out);
          weights_to_rows<T, W, true>(weights + f * size + W, n_cells_, out + W);
        }
      });
    });
  }

  void clear(T*) const { std::fill_n(sums_, (args_.n_in * rows_ + 1) * pitch(), T(0)); }

  // y[o][s] of the points x[i][s]; `count` is a multiple of L.
  void forward(const T* x, std::int64_t count, T* y) const {
    for (std::int64_t i = 0; i < args_.n_in; ++i) {
      points_.tabulate(i, x, count);
      sorted_[i].sort(points_.cells(i), count, n_cells_);
    }
    T* rows = scratch<T, 2>(kBlock * kMostVectors * L);
    for_strips([&](std::int64_t o, auto vectors) {
      constexpr int C = vectors(), W = C * L;
      for (std::int64_t s = 0; s < count; ++s) std::copy_n(bias_ + o, W, rows + s * W);
      std::int64_t i = 0;
      for (; i + 2 <= args_.n_in; i += 2) add_features<C, 2>(i, weights(o, i, W), rows);
      if (i < args_.n_in) add_features<C, 1>(i, weights(o, i, W), rows);
      for_vectors(o, W, [&](std::int64_t v, std::int64_t width) {
        load_columns<T, L>(rows + v, W, count, width, y + (o + v) * kBlock, kBlock);
      });
    });
  }

  // Adds to the sums of the weights and stores dx[i][s], unless null, from g[o][s].
  void backward(const T* g, std::int64_t count, T*, T* dx) const {
    T* rows = scratch<T, 2>(kBlock * (kMostVectors + 1) * L);
    T* lanes = rows + kBlock * kMostVectors * L;
    for_strips([&](std::int64_t o, auto vectors) {
      constexpr int C = vectors(), W = C * L;
      if (args_.n_out < o + W) std::fill_n(rows, count * W, T(0));
      for_vectors(o, W, [&](std::int64_t v, std::int64_t width) {
        store_columns<T, L>(g + (o + v) * kBlock, kBlock, count, width, rows + v, W);
      });
      add_bias<C>(rows, count, sums_ + args_.n_in * rows_ * pitch() + o);
      T* of = sums_ + o * args_.n_in * rows_;
      for (std::int64_t i = 0; i < args_.n_in; ++i, of += rows_ * W) {
        if (!dx) {
          add_moments<C, false>(i, rows, count, nullptr, of, nullptr);
        } else {
          add_moments<C, true>(i, rows, count, weights(o, i, W), of, lanes);
          sum_lanes(lanes, count, o > 0, dx + i * kBlock);
        }
      }
    });
  }

  // What is kept of the sums of a chunk: moments become gradients of the rows of weights.
  void keep(T* kept) const {
    const T* sums = sums_;
    for_strips([&](std::int64_t, auto vectors) {
      constexpr int W = vectors() * L;
      for (std::int64_t i = 0; i < args_.n_in; ++i, sums += rows_ * W) {
        kept = std::copy_n(sums, W, kept);
        kept = moments_to_rows<W>(sums + W, kept);
      }
    });
    std::copy_n(sums, pitch(), kept);
  }

  void finish(std::int64_t model, const T* kept) const {
    for_strips([&](std::int64_t o, auto vectors) {
      constexpr int W = vectors() * L;
      for_tiles(o, W, [&](const Tile& tile) {
        store_gradients<T, L>(args_, model, tile, kCubicDegree, kept);
        kept += tile.features * tile.rows * W;
      });
    });
    std::copy_n(kept, args_.n_out, args_.dbias + model * args_.n_out);
  }

 private:
  using V = Simd<T, L>;
  using Vec = typename V::Vec;
  using Points = FitPoints<T>;
  static constexpr int kMostVectors = 2;

  std::int64_t pitch() const { return round_up(args_.n_out, L); }
  const T* weights(std::int64_t o, std::int64_t i, std::int64_t width) const {
    return weights_ + o * args_.n_in * rows_ + i * rows_ * width;
  }

  template <class Work>
  void for_strips(const Work& work) const {
    std::int64_t o = 0;
    for (; o + L < args_.n_out; o += 2 * L) work(o, std::integral_constant<int, 2>{});
    if (o < args_.n_out) work(o, std::integral_constant<int, 1>{});
  }

  template <class Work>
  void for_tiles(std::int64_t o, std::int64_t width, const Work& work) const {
    constexpr std::int64_t kFeatures = kTileFeatures<T>;
    for (std::int64_t i = 0; i < args_.n_in; i += kFeatures)
      work(Tile{i, std::min(kFeatures, args_.n_in - i), o, std::min(width, args_.n_out - o),
                1 + n_cells_ + kCubicDegree, width});
  }

  template <class Work>
  void for_vectors(std::int64_t o, std::int64_t width, const Work& work) const {
    for (std::int64_t v = 0; v < width && o + v < args_.n_out; v += L)
      work(v, std::min<std::int64_t>(L, args_.n_out - o - v));
  }

  // Adds F features to the rows y of C vectors of outputs, the samples being sorted by the first.
  template <int C, int F>
  void add_features(std::int64_t i, const T* w, T* y) const {
    constexpr int W = C * L;
    const std::int64_t feature = rows_ * W;
    const T *position[F], *residual[F];
    Vec r[F][C];
    for (int f = 0; f < F; ++f) {
      position[f] = points_.table(i + f, Points::kPosition);
      residual[f] = points_.table(i + f, Points::kResidual);
      for (int c = 0; c < C; ++c) r[f][c] = hold(V::load(w + f * feature + c * L));
    }
    const SortedCells& sorted = sorted_[i];
    const std::int32_t* other = points_.cells(i + F - 1);
    const T *coefficients = w + W, *others = w + (F - 1) * feature + W;
    for (std::int64_t cell = 0; cell < n_cells_; ++cell, coefficients += kRows * W) {
      const std::uint8_t *next = sorted.order + sorted.starts[cell],
                         *end = sorted.order + sorted.starts[cell + 1];
      if (next == end) continue;
      Vec d[kRows][C];
#pragma GCC unroll 4
      for (int q = 0; q < kRows; ++q)
        for (int c = 0; c < C; ++c) d[q][c] = hold(V::load(coefficients + q * W + c * L));
      for (; next != end; ++next) {
        const std::int64_t s = *next;
        T* out = y + s * W;
        Vec sum[C];
        const Vec v = hold(V::splat(position[0][s])), R = hold(V::splat(residual[0][s]));
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) {
          Vec phi = d[3][c] * v + d[2][c];
          phi = phi * v + d[1][c];
          sum[c] = phi * v + (r[0][c] * R + (V::load(out + c * L) + d[0][c]));
        }
        if constexpr (F == 2) {
          const T* of = others + other[s] * (kRows * W);
          const Vec v = hold(V::splat(position[1][s])), R = hold(V::splat(residual[1][s]));
#pragma GCC unroll 2
          for (int c = 0; c < C; ++c) {
            Vec phi = V::load(of + 3 * W + c * L) * v + V::load(of + 2 * W + c * L);
            phi = phi * v + V::load(of + W + c * L);
            sum[c] = phi * v + (r[1][c] * R + (sum[c] + V::load(of + c * L)));
          }
        }
        for (int c = 0; c < C; ++c) V::store(out + c * L, sum[c]);
      }
    }
  }

  template <int C>
  static void add_bias(const T* rows, std::int64_t count, T* sums) {
    for (int c = 0; c < C; ++c) {
      // Four sums: shorter chains, and smaller rounding errors.
      Vec sum[4] = {V::load(sums + c * L)};
      for (std::int64_t s = 0; s < count; s += 4)
        for (int j = 0; j < 4; ++j) sum[j] += V::load(rows + ((s + j) * C + c) * L);
      V::store(sums + c * L, (sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
  }

  // Adds the moments g, 2 v g, 3 v^2 g and v^3 g of one feature, with which phi' is D1 + 2 v D2 +
  // 3 v^2 D3 too, and stores the lanes of dx.
  template <int C, bool Inputs>
  void add_moments(std::int64_t i, const T* g, std::int64_t count, const T* w, T* sums,
                   T* lanes) const {
    constexpr int W = C * L;
    const T* position = points_.table(i, Points::kPosition);
    const T *residual = points_.table(i, Points::kResidual),
            *slope = points_.table(i, Points::kSlope);
    const SortedCells& sorted = sorted_[i];
    alignas(64) T powers[3][kBlock];
    for (std::int64_t s = 0; s < count; s += L) {
      const Vec v = V::load(position + s), square = v * v;
      V::store(powers[0] + s, v + v);
      V::store(powers[1] + s, T(3) * square);
      V::store(powers[2] + s, square * v);
    }
    Vec residual_sums[C], r[C];
    for (int c = 0; c < C; ++c) {
      residual_sums[c] = V::load(sums + c * L);
      if constexpr (Inputs) r[c] = hold(V::load(w + c * L));
    }
    T* moments = sums + W;
    for (std::int64_t cell = 0; cell < n_cells_; ++cell, moments += kRows * W) {
      const std::uint8_t *next = sorted.order + sorted.starts[cell],
                         *end = sorted.order + sorted.starts[cell + 1];
      if (next == end) continue;
      Vec sum[kRows][C], d[kRows][C];
#pragma GCC unroll 4
      for (int q = 0; q < kRows; ++q)
        for (int c = 0; c < C; ++c) {
          sum[q][c] = V::load(moments + q * W + c * L);
          if constexpr (Inputs)
            if (q > 0) d[q][c] = hold(V::load(w + (1 + kRows * cell + q) * W + c * L));
        }
      for (; next != end; ++next) {
        const std::int64_t s = *next;
        const Vec v = hold(V::splat(powers[0][s])), v2 = hold(V::splat(powers[1][s]));
        const Vec v3 = hold(V::splat(powers[2][s])), R = hold(V::splat(residual[s]));
        const T* row = g + s * W;
        Vec lane_sums{};
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) {
          const Vec gradient = hold(V::load(row + c * L));
          residual_sums[c] += gradient * R;
          sum[0][c] += gradient;
          sum[1][c] += gradient * v;
          sum[2][c] += gradient * v2;
          sum[3][c] += gradient * v3;
          if constexpr (Inputs) {
            const Vec phi = d[3][c] * v2 + (d[2][c] * v + (r[c] * slope[s] + d[1][c]));
            lane_sums = c ? lane_sums + gradient * phi : gradient * phi;
          }
        }
        if constexpr (Inputs) V::store(lanes + s * L, lane_sums);
      }
#pragma GCC unroll 4
      for (int q = 0; q < kRows; ++q)
        for (int c = 0; c < C; ++c) V::store(moments + q * W + c * L, sum[q][c]);
    }
    for (int c = 0; c < C; ++c) V::store(sums + c * L, residual_sums[c]);
  }

  void sum_lanes(const T* lanes, std::int64_t count, bool add, T* dx) const {
    for (std::int64_t s = 0; s < count; s += L) {
      Vec sum = inverse_ * lane_sums<T, L>(lanes + s * L);
      if (add) sum += V::load(dx + s);
      V::store(dx + s, sum);
    }
  }

  // Moments (n_cells, 4, W) to the gradients (n_cells + 3, W) of the weights.
  template <int W>
  T* moments_to_rows(const T* moments, T* gradients) const {
    // Of the moments of Taylor's polynomial: v, v^2/2 and v^3/6.
    constexpr double factor[kRows] = {1, 1.0 / 2, 1.0 / 6, 1.0 / 6};
    for (int o = 0; o < W; o += L) {
      Vec sums[kRows] = {};  // of the functions of a cell; the next one has three of them
      for (std::int64_t j = 0; j < n_cells_; ++j) {
        for (int q = 0; q < kRows; ++q) {
          const Vec moment = V::load(moments + (kRows * j + q) * W + o);
          for (int t = 0; t <= kCubicDegree; ++t) sums[t] += T(kCubic[t][q] * factor[q]) * moment;
        }
        V::store(gradients + j * W + o, sums[0]);
        for (int t = 0; t < kCubicDegree; ++t) sums[t] = sums[t + 1];
        sums[kCubicDegree] = Vec{};
      }
      for (int t = 0; t < kCubicDegree; ++t) V::store(gradients + (n_cells_ + t) * W + o, sums[t]);
    }
    return gradients + (n_cells_ + kCubicDegree) * W;
  }

  const JetArgs<T>& args_;
  FitPoints<T> points_;
  const T inverse_;
  const std::int64_t n_cells_, rows_;  // rows of a feature: that of r, then four for every cell
  T *weights_, *bias_, *sums_;         // coefficients and moments [strip][feature][row]
  SortedCells* sorted_;                // [feature]
};

}  // namespace KANDLE_ISA
}  // namespace kandle

#endif  // KANDLE_AVX512
