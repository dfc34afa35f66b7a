// A layer of cubics with up to one vector of outputs on one block of samples, forward and back.
//
// Numbers of a block are stored feature by feature, [feature][sample], and lanes run over samples:
// the coefficients of an edge are looked up in registers (lookup.h). Only the moments of several
// outputs want lanes of outputs, as in slim.h, and turn the gradients of a block for it.
#pragma once

#include <algorithm>

#include "fit_points.h"
#include "lookup.h"
#include "narrow.h"
#include "slim.h"
#include "sort.h"

#if KANDLE_AVX512

namespace kandle {
namespace KANDLE_ISA {

template <class T>
class FitSlim {
 public:
  static constexpr int L = kLanes<T>, kHalf = L / 2;

  FitSlim(const JetArgs<T>& a, std::int64_t block)
      : args_(a), block_(block), points_(a, block), n_cells_(cell_count(a.spline)) {}

  // Numbers that the tables and packed weights take, and those that the sums of a chunk take.
  std::int64_t memory() const {
    return round_up(args_.n_in * args_.n_out, L) + args_.n_in * args_.n_out * edge_size() +
           points_.memory() + args_.n_in * block_;
  }
  std::int64_t kept() const { return args_.n_in * feature_sums() + args_.n_out * L; }

  void pack(std::int64_t model, T* memory) {
    const std::int64_t n_in = args_.n_in, n_out = args_.n_out, m = args_.spline.grid + kCubicDegree;
    const T *b = args_.b.at(model), *c = args_.c.at(model), *r = args_.r.at(model);
    bias_ = args_.bias.at(model), r_ = memory;
    memory = edges_ = r_ + round_up(n_in * n_out, L);
    with_edges([&](auto* type) {
      using Edge = std::remove_pointer_t<decltype(type)>;
      for (std::int64_t i = 0; i < n_in; ++i)
        for (std::int64_t o = 0; o < n_out; ++o, memory += edge_size()) {
          const std::int64_t edge = o * n_in + i;
          Edge::pack(b + edge * m, c[edge], m, n_cells_, memory);
          r_[i * n_out + o] = args_.residual ? r[edge] : T(0);
        }
    });
    points_.place(memory);
    cells_ = reinterpret_cast<std::int32_t*>(memory + points_.memory());
  }

  // y[o][s] of the points x[i][s]; `count` is a multiple of L.
  void forward(const T* x, std::int64_t count, T* y) const {
    for (std::int64_t i = 0; i < args_.n_in; ++i) points_.tabulate(i, x, count, cells(i));
    for (std::int64_t o = 0; o < args_.n_out; ++o) std::fill_n(y + o * block_, count, bias_[o]);
    with_edges([&](auto* type) {
      using Edge = std::remove_pointer_t<decltype(type)>;
      if (args_.n_out == 1) return add_output<Edge>(count, y);
      // Whose coefficients stay in registers.
      constexpr int kOutputs = std::is_same_v<Edge, HeldEdge<T, false, true>> ? 4 : 2;
      std::int64_t o = 0;
      for (; o + kOutputs <= args_.n_out; o += kOutputs) add_outputs<Edge, kOutputs>(o, count, y);
      for (; o < args_.n_out; ++o) add_outputs<Edge, 1>(o, count, y);
    });
  }

  // Adds to the sums of the weights, or stores them if they are `fresh`, and stores dx[i][s],
  // unless null, from g[o][s].
  void backward(const T* g, std::int64_t count, bool fresh, T* sums, T* dx) const {
    if (dx && args_.n_out == 1) {
      for (std::int64_t i = 0; i < args_.n_in; ++i)
        for (std::int64_t s = 0; s < count; s += L)
          V::store(dx + i * block_ + s, V::load(g + s) * V::load(points_.rows(i).slope() + s));
    } else if (dx) {
      with_edges([&](auto* type) {
        input_gradients<std::remove_pointer_t<decltype(type)>>(g, count, dx);
      });
    }
    add_bias(g, count, fresh, sums + args_.n_in * feature_sums());
    if (args_.n_out == 1) return add_narrow(g, count, fresh, sums);
    // The sums of a large block are added at once (FitLayer::piece).
    const std::int64_t size = args_.n_in * feature_sums();
    const bool apart = !fresh && block_ == kLargeBlock;
    T* own = apart ? scratch<T, 4>(size) : sums;
    if (fresh || apart) std::fill_n(own, size, T(0));
    args_.n_out <= kHalf ? add_slim<kHalf>(g, count, own) : add_slim<L>(g, count, own);
    for (std::int64_t j = 0; apart && j < size; ++j) sums[j] += own[j];
  }

  // From sums to gradients, all at once.
  std::int64_t parts() const { return 1; }
  Range kept_of(std::int64_t) const { return {0, kept()}; }
  void finish(std::int64_t model, std::int64_t, T* sums) const {
    T* of = sums;
    if (args_.n_out == 1) {
      const Narrow<T, 0, 0> narrow(args_);
      for (std::int64_t i = 0; i < args_.n_in; ++i, of += feature_sums()) {
        scale_moments<1>(of, 1);
        narrow.unpack(model, i, 1, of, of + moments());
      }
    } else if (args_.n_out <= kHalf) {
      unpack_slim<kHalf>(model, of);
    } else {
      unpack_slim<L>(model, of);
    }
    of = sums + args_.n_in * feature_sums();
    for (std::int64_t o = 0; o < args_.n_out; ++o) {
      T sum = T(0);
      for (int l = 0; l < L; ++l) sum += of[o * L + l];
      args_.dbias[model * args_.n_out + o] = sum;
    }
  }

 private:
  using V = Simd<T, L>;
  using Vec = typename V::Vec;
  static constexpr int kCopies = Narrow<T, 0, 0>::kCopies, kSlimCopies = Slim<T, L, 0, 0>::kCopies;

  // Calls work with the type of an edge's coefficients, as a null pointer to it.
  template <class Work>
  auto with_edges(const Work& work) const {
    if (n_cells_ <= L) return work(static_cast<HeldEdge<T, false, true>*>(nullptr));
    if (n_cells_ <= 2 * L) return work(static_cast<HeldEdge<T, true, true>*>(nullptr));
    return work(static_cast<GatheredEdge<T, true>*>(nullptr));
  }

  std::int64_t edge_size() const {
    return with_edges([&](auto* type) {
      return round_up(std::remove_pointer_t<decltype(type)>::packed_size(n_cells_), L);
    });
  }
  const T* edge(std::int64_t i, std::int64_t o) const {
    return edges_ + (i * args_.n_out + o) * edge_size();
  }

  // Of one edge, in whole vectors.
  std::int64_t moments() const { return round_up(kRows * n_cells_, L); }

  // Of one feature, the moments of its cells and the gradients of r.
  std::int64_t feature_sums() const {
    if (args_.n_out == 1) return moments() + L;
    const std::int64_t width = args_.n_out <= kHalf ? kHalf : L;
    return kSlimCopies * (1 + kRows * n_cells_) * width;
  }

  std::int32_t* cells(std::int64_t i) const { return cells_ + i * block_; }

  // Adds all features to the outputs o .. o + O - 1.
  template <class Edge, int O>
  void add_outputs(std::int64_t first, std::int64_t count, T* y) const {
    for (std::int64_t i = 0; i < args_.n_in; ++i) {
      Edge edges[O];
      Vec r[O];
      for (int o = 0; o < O; ++o) {
        edges[o].load(edge(i, first + o));
        r[o] = V::splat(r_[i * args_.n_out + first + o]);
      }
      const T *position = points_.rows(i).v, *residual = points_.rows(i).residual();
      const std::int32_t* places = cells(i);
      for (std::int64_t s = 0; s < count; s += L) {
        typename V::Index cell;
        std::memcpy(&cell, places + s, sizeof cell);
        const Vec v = hold(V::load(position + s)), R = hold(V::load(residual + s));
#pragma GCC unroll 4
        for (int o = 0; o < O; ++o) {
          T* out = y + (first + o) * block_ + s;
          Vec d[kRows];
          edges[o].at(cell, d);
          V::store(out, ((d[3] * v + d[2]) * v + d[1]) * v + (r[o] * R + (V::load(out) + d[0])));
        }
      }
    }
  }

  // Adds all features to the only output. Its derivative in a point needs the same coefficients: it
  // replaces R' in the tables, and the backward pass is a product.
  template <class Edge>
  void add_output(std::int64_t count, T* y) const {
    const T inverse = points_.inverse();
    for (std::int64_t i = 0; i < args_.n_in; ++i) {
      Edge edge;
      edge.load(this->edge(i, 0));
      const Vec r = V::splat(r_[i]);
      const PointRows<T> rows = points_.rows(i);
      T *position = rows.v, *residual = rows.residual(), *slope = rows.slope();
      const std::int32_t* places = cells(i);
      for (std::int64_t s = 0; s < count; s += L) {
        typename V::Index cell;
        std::memcpy(&cell, places + s, sizeof cell);
        Vec d[kRows];
        edge.at(cell, d);
        const Vec v = V::load(position + s), R = V::load(residual + s);
        // The coefficients are those of Horner's scheme, D2/2 and D3/6.
        const Vec phi = (d[3] * v + d[2]) * v + d[1];
        const Vec bend = (d[3] * v + (d[3] * v + d[2])) * v;
        V::store(y + s, phi * v + (r * R + (V::load(y + s) + d[0])));
        V::store(slope + s, inverse * (r * V::load(slope + s) + (phi + bend)));
      }
    }
  }

  // In phi' = D1 + v D2 + v^2/2 D3 + r R' the factors of D and r do not depend on the output: what
  // is summed over outputs is g D and g r, for kVectors vectors of samples that share the loads.
  template <class Edge>
  void input_gradients(const T* g, std::int64_t count, T* dx) const {
    constexpr int kVectors = 4;
    for (std::int64_t i = 0; i < args_.n_in; ++i, dx += block_) {
      std::int64_t s = 0;
      for (; s + kVectors * L <= count; s += kVectors * L)
        input_gradients<Edge, kVectors>(i, g, s, dx);
      for (; s < count; s += L) input_gradients<Edge, 1>(i, g, s, dx);
    }
  }

  template <class Edge, int U>
  KANDLE_INLINE void input_gradients(std::int64_t i, const T* g, std::int64_t s, T* dx) const {
    const std::int64_t n_out = args_.n_out;
    const T *weights = edge(i, 0), *r = r_ + i * n_out;
    typename V::Index cell[U];
    for (int u = 0; u < U; ++u) std::memcpy(&cell[u], cells(i) + s + u * L, sizeof cell[u]);
    Vec sums[kRows][U] = {};
    for (std::int64_t o = 0; o < n_out; ++o) {
      Edge coefficients;
      coefficients.load(weights + o * edge_size());
      const Vec residual = V::splat(r[o]);
#pragma GCC unroll 4
      for (int u = 0; u < U; ++u) {
        const Vec gradient = hold(V::load(g + o * block_ + s + u * L));
        Vec d[kRows];
        coefficients.at(cell[u], d);
        sums[0][u] += gradient * residual;
#pragma GCC unroll 4
        for (int q = 1; q < kRows; ++q) sums[q][u] += gradient * d[q];
      }
    }
    for (int u = 0; u < U; ++u) {
      const Vec v = V::load(points_.rows(i).v + s + u * L);
      // The coefficients are those of Horner's scheme, D2/2 and D3/6.
      const Vec sum = sums[1][u] + v * (T(2) * sums[2][u] + (T(3) * v) * sums[3][u]);
      const Vec slope = V::load(points_.rows(i).slope() + s + u * L);
      V::store(dx + s + u * L, points_.inverse() * (sum + sums[0][u] * slope));
    }
  }

  void add_bias(const T* g, std::int64_t count, bool fresh, T* sums) const {
    for (std::int64_t o = 0; o < args_.n_out; ++o) {
      Vec sum{};
      for (std::int64_t s = 0; s < count; s += L) sum += V::load(g + o * block_ + s);
      V::store(sums + o * L, fresh ? sum : V::load(sums + o * L) + sum);
    }
  }

  // The moments here are g v^q, without the factors 1/2 and 1/6 of the last two.
  void add_narrow(const T* g, std::int64_t count, bool fresh, T* sums) const {
    const std::int64_t size = moments();
    T* rows = scratch<T, 2>(kRows * block_);
    T* copies = scratch<T, 4>(kCopies * size);
    for (std::int64_t i = 0; i < args_.n_in; ++i, sums += feature_sums()) {
      const T *position = points_.rows(i).v, *values = points_.rows(i).residual();
      Vec residual{};
      for (std::int64_t s = 0; s < count; s += L) {
        const Vec v = V::load(position + s);
        Vec moments[kRows] = {V::load(g + s)};
        for (int q = 1; q < kRows; ++q) moments[q] = moments[q - 1] * v;
        residual += moments[0] * V::load(values + s);
        turn_rows<T, L>(moments, rows + kRows * s);
      }
      std::fill_n(copies, kCopies * size, T(0));
      add_rows<T, L, kCopies>(rows, cells(i), count, size, copies);
      for (std::int64_t j = 0; j < size; j += L) {
        Vec sum = V::load(copies + j);
        for (int k = 1; k < kCopies; ++k) sum += V::load(copies + k * size + j);
        V::store(sums + j, fresh ? sum : V::load(sums + j) + sum);
      }
      V::store(sums + size, fresh ? residual : V::load(sums + size) + residual);
    }
  }

  template <int W>
  void add_slim(const T* g, std::int64_t count, T* sums) const {
    using Out = Simd<T, W>;
    using Row = typename Out::Vec;
    const std::int64_t copy = (1 + kRows * n_cells_) * W;
    T* rows = scratch<T, 2>(block_ * W);
    if (args_.n_out < W) std::fill_n(rows, count * W, T(0));
    store_columns<T, W>(g, block_, count, args_.n_out, rows, W);
    std::int64_t i = 0;
    for (; i + 2 <= args_.n_in; i += 2)
      add_features<W, 2>(i, rows, count, sums + i * feature_sums());
    if (i < args_.n_in) add_features<W, 1>(i, rows, count, sums + i * feature_sums());
  }

  template <int W, int F>
  void add_features(std::int64_t i, const T* rows, std::int64_t count, T* sums) const {
    using Out = Simd<T, W>;
    using Row = typename Out::Vec;
    const std::int64_t copy = (1 + kRows * n_cells_) * W, feature = feature_sums();
    const T *position[F], *values[F];
    const std::int32_t* cell[F];
    Row residual[F][kSlimCopies];
    for (int f = 0; f < F; ++f) {
      position[f] = points_.rows(i + f).v, values[f] = points_.rows(i + f).residual();
      cell[f] = cells(i + f);
      for (int k = 0; k < kSlimCopies; ++k)
        residual[f][k] = Out::load(sums + f * feature + k * copy);
    }
    for (std::int64_t s = 0; s < count; s += kSlimCopies)
#pragma GCC unroll 4
      for (int k = 0; k < kSlimCopies; ++k) {
        const Row g = hold(Out::load(rows + (s + k) * W));
#pragma GCC unroll 2
        for (int f = 0; f < F; ++f) {
          const std::int64_t place = cell[f][s + k];
          T* moment = sums + f * feature + W + k * copy + kRows * W * place;
          Row moments[kRows], power = g;
          const Row v = hold(Out::splat(position[f][s + k]));
          residual[f][k] += power * values[f][s + k];
#pragma GCC unroll 4
          for (int q = 0; q < kRows; ++q) moments[q] = Out::load(moment + q * W);
#pragma GCC unroll 4
          for (int q = 0; q < kRows; ++q, power *= v) moments[q] += power;
#pragma GCC unroll 4
          for (int q = 0; q < kRows; ++q) Out::store(moment + q * W, moments[q]);
        }
      }
    for (int f = 0; f < F; ++f)
      for (int k = 0; k < kSlimCopies; ++k)
        Out::store(sums + f * feature + k * copy, residual[f][k]);
  }

  template <int W>
  void scale_moments(T* moments, std::int64_t copies) const {
    for (std::int64_t j = 0; j < copies * n_cells_; ++j, moments += kRows * W)
      for (int l = 0; l < W; ++l) moments[2 * W + l] *= T(0.5), moments[3 * W + l] *= T(1.0 / 6);
  }

  template <int W>
  void unpack_slim(std::int64_t model, T* sums) const {
    const std::int64_t copy = (1 + kRows * n_cells_) * W;
    for (std::int64_t j = 0; j < args_.n_in * kSlimCopies; ++j)
      scale_moments<W>(sums + j * copy + W, 1);
    Slim<T, W, 0, 0>(args_).unpack(model, 0, args_.n_in, sums);
  }

  const JetArgs<T>& args_;
  const std::int64_t block_;
  FitPoints<T> points_;
  const std::int64_t n_cells_;
  const T* bias_;
  T *r_, *edges_;        // r[i][o], coefficients[i][o]
  std::int32_t* cells_;  // [i][s]
};

}  // namespace KANDLE_ISA
}  // namespace kandle

#endif  // KANDLE_AVX512
