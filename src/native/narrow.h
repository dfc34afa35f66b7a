// The layer with one output and cubic splines: lanes run over samples, because there are no outputs to
// run over.
//
// As for few outputs (slim.h), a cell's functions are one Taylor polynomial, here of four numbers: one
// short row. The rows of a vector of points are loaded and transposed, so that D_q of all points is one
// vector; gradients go the other way, into one short row of moments a cell. All derivatives are with
// respect to u.
#pragma once

#include <algorithm>

#include "basis.h"
#include "scratch.h"

namespace kandle {
namespace KANDLE_ISA {

// A 4 x L transpose: lane l of out[t] is rows[l][t].
template <class T, int L>
inline void gather_rows(const T* base, const std::int32_t* cells, typename Simd<T, L>::Vec* out) {
  using Row = Simd<T, 4>;
  if constexpr (L == 8) {
    typename Simd<T, 8>::Vec c[4];
    for (int j = 0; j < 4; ++j)
      c[j] = __builtin_shufflevector(Row::load(base + 4 * cells[j]), Row::load(base + 4 * cells[j + 4]), 0, 1, 2, 3, 4,
                                     5, 6, 7);
    const auto t0 = __builtin_shufflevector(c[0], c[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const auto t1 = __builtin_shufflevector(c[0], c[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const auto t2 = __builtin_shufflevector(c[2], c[3], 0, 8, 1, 9, 4, 12, 5, 13);
    const auto t3 = __builtin_shufflevector(c[2], c[3], 2, 10, 3, 11, 6, 14, 7, 15);
    out[0] = __builtin_shufflevector(t0, t2, 0, 1, 8, 9, 4, 5, 12, 13);
    out[1] = __builtin_shufflevector(t0, t2, 2, 3, 10, 11, 6, 7, 14, 15);
    out[2] = __builtin_shufflevector(t1, t3, 0, 1, 8, 9, 4, 5, 12, 13);
    out[3] = __builtin_shufflevector(t1, t3, 2, 3, 10, 11, 6, 7, 14, 15);
  } else {
    for (int l = 0; l < L; ++l)
      for (int t = 0; t < 4; ++t) out[t][l] = base[4 * static_cast<std::int64_t>(cells[l]) + t];
  }
}

// Adds lane l of in[t] to sums[cells[l]][t]. Lane l has the copy of the sums numbered l mod `Copies`, so
// that points of one cell which follow each other do not wait for each other.
template <class T, int L, int Copies>
inline void scatter_rows(const typename Simd<T, L>::Vec* in, const std::int32_t* cells, std::int64_t copy, T* sums) {
  using Row = Simd<T, 4>;
  if constexpr (L == 8) {
    const auto t0 = __builtin_shufflevector(in[0], in[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const auto t1 = __builtin_shufflevector(in[0], in[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const auto t2 = __builtin_shufflevector(in[2], in[3], 0, 8, 1, 9, 4, 12, 5, 13);
    const auto t3 = __builtin_shufflevector(in[2], in[3], 2, 10, 3, 11, 6, 14, 7, 15);
    const typename Simd<T, 8>::Vec c[4] = {__builtin_shufflevector(t0, t2, 0, 1, 8, 9, 4, 5, 12, 13),
                                           __builtin_shufflevector(t0, t2, 2, 3, 10, 11, 6, 7, 14, 15),
                                           __builtin_shufflevector(t1, t3, 0, 1, 8, 9, 4, 5, 12, 13),
                                           __builtin_shufflevector(t1, t3, 2, 3, 10, 11, 6, 7, 14, 15)};
#pragma GCC unroll 8
    for (int l = 0; l < 8; ++l) {
      T* row = sums + (l % Copies) * copy + 4 * cells[l];
      const auto value = l < 4 ? __builtin_shufflevector(c[l % 4], c[l % 4], 0, 1, 2, 3)
                               : __builtin_shufflevector(c[l % 4], c[l % 4], 4, 5, 6, 7);
      Row::store(row, Row::load(row) + value);
    }
  } else {
    for (int l = 0; l < L; ++l) {
      T* row = sums + (l % Copies) * copy + 4 * static_cast<std::int64_t>(cells[l]);
      for (int t = 0; t < 4; ++t) row[t] += in[t][l];
    }
  }
}

template <class T, int D, int S>
struct Narrow {
  static constexpr int C = 1 + D + S;
  static constexpr int kOrders = 1 + (D > 0) + (S > 0);
  static constexpr int L = kLanes<T>;
  static constexpr int kCopies = 4;
  static constexpr int kDegree = 3;
  static constexpr std::int64_t kBlock = C == 1 ? 256 : 64;
  using V = Simd<T, L>;
  using Vec = typename V::Vec;

  const JetArgs<T>& args;
  const Cells<T> cell_grid;
  const std::int64_t n_basis, n_cells, size;  // `size` numbers of a feature: four a cell

  explicit Narrow(const JetArgs<T>& a)
      : args(a),
        cell_grid(a.spline),
        n_basis(a.spline.grid + kDegree),
        n_cells(cell_count(a.spline)),
        size(4 * n_cells) {}

  void pack(std::int64_t model, std::int64_t i, T* out) const {
    T* weights = scratch<T, 3>(n_cells + kDegree);
    std::fill(weights, weights + n_cells + kDegree, T(0));
    const T scale = args.c.at(model)[i];
    const T* b = args.b.at(model) + i * n_basis;
    for (std::int64_t j = 0; j < n_basis; ++j) weights[kDegree + j] = scale * b[j];
    for (std::int64_t j = 0; j < n_cells; ++j)
      for (int q = 0; q < 4; ++q) {
        T sum = T(0);
        for (int t = 0; t < 4; ++t) sum += T(kCubic[t][q]) * weights[j + t];
        out[4 * j + q] = sum;
      }
  }

  struct Point {
    Vec x[C];  // the point, and its other components in u
    std::int32_t cells[L];
    Vec v, half, sixth;  // v, v^2/2, v^3/6
    Vec residual[kOrders + 1];
    Vec phi[kOrders + 1];  // phi, phi', ... at the point
  };

  template <int Orders>
  void evaluate(Point& p, const Cells<T>& grid, const T* w, T r) const {
    const auto at = locate<T, L>(p.x[0], grid);
    const auto narrow = __builtin_convertvector(at.cell, typename V::Index);
    std::memcpy(p.cells, &narrow, sizeof narrow);
    Vec d[4];
    gather_rows<T, L>(w, p.cells, d);
    if (args.residual) {
      evaluate_silu<T, L, Orders>(p.x[0], p.residual);
    } else {
      for (int order = 0; order < Orders; ++order) p.residual[order] = at.poison;
    }
    const T inverse = T(1) / grid.inverse;
    T unit = T(1);
    for (int order = 1; order < Orders; ++order) p.residual[order] *= unit *= inverse;
    for (int c = 1; c < C; ++c) p.x[c] *= grid.inverse;
    p.v = at.u - T(0.5);
    const Vec square = p.v * p.v;
    p.half = T(0.5) * square;
    p.sixth = T(1.0 / 6) * (square * p.v);
    p.phi[0] = d[0] + d[1] * p.v + d[2] * p.half + d[3] * p.sixth + p.residual[0] * r;
    if constexpr (Orders > 1) p.phi[1] = d[1] + d[2] * p.v + d[3] * p.half + p.residual[1] * r;
    if constexpr (Orders > 2) p.phi[2] = d[2] + d[3] * p.v + p.residual[2] * r;
    if constexpr (Orders > 3) p.phi[3] = d[3] + p.residual[3] * r;
  }

  // The samples of up to L features, each feature's contiguous.
  void load_group(const T* source, std::int64_t start, std::int64_t count, std::int64_t i, std::int64_t end,
                  T (&columns)[L][C][kBlock]) const {
    for (int c = 0; c < C; ++c)
      load_columns<T, L>(source + (c * args.n + start) * args.n_in + i, args.n_in, count,
                         std::min<std::int64_t>(L, end - i), columns[0][c], C * kBlock);
  }

  void forward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = args.n, n_in = args.n_in;
    T* w = scratch<T, 0>(n_in * size);
    for (std::int64_t i = 0; i < n_in; ++i) pack(model, i, w + i * size);
    const T *source = args.x.at(model), *r = args.r.at(model);
    const T bias = args.bias.at(model)[0];
    T* target = args.y + model * C * n;
    const Cells<T> grid = cell_grid;
    alignas(64) T y[C][kBlock], columns[L][C][kBlock] = {};
    for (std::int64_t start = begin; start < end; start += kBlock) {
      const std::int64_t count = std::min(kBlock, end - start);
      std::fill_n(y[0], kBlock, bias);
      for (int c = 1; c < C; ++c) std::fill_n(y[c], kBlock, T(0));
      for (std::int64_t i = 0; i < n_in; ++i) {
        if (i % L == 0) load_group(source, start, count, i, n_in, columns);
        const auto& x = columns[i % L];
        for (std::int64_t s = 0; s < count; s += L) {
          Point p;
          for (int c = 0; c < C; ++c) p.x[c] = V::load(&x[c][s]);
          evaluate<kOrders>(p, grid, w + i * size, r[i]);
          V::store(&y[0][s], V::load(&y[0][s]) + p.phi[0]);
          for (int d = 0; d < D; ++d) V::store(&y[1 + d][s], V::load(&y[1 + d][s]) + p.phi[1] * p.x[1 + d]);
          for (int d = 0; d < S; ++d)
            V::store(&y[1 + D + d][s], V::load(&y[1 + D + d][s]) + p.phi[2] * (p.x[1 + d] * p.x[1 + d]) +
                                           p.phi[1] * p.x[1 + D + d]);
        }
      }
      for (int c = 0; c < C; ++c) std::copy(y[c], y[c] + count, target + c * n + start);
    }
  }

  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = args.n, n_in = args.n_in, features = end - begin, copy = size;
    const bool want_x = args.dx != nullptr, want_w = args.dbias != nullptr;
    T* w = scratch<T, 0>(features * size);
    for (std::int64_t i = begin; i < end; ++i) pack(model, i, w + (i - begin) * size);
    T* sums = scratch<T, 1>(features * kCopies * copy);
    std::fill(sums, sums + features * kCopies * copy, T(0));
    T* residual_sums = scratch<T, 2>(features * L);
    std::fill(residual_sums, residual_sums + features * L, T(0));
    const T *source = args.x.at(model), *r = args.r.at(model), *gradients = args.g.at(model);
    T* dx = want_x ? args.dx + model * C * n * n_in : nullptr;
    const Cells<T> grid = cell_grid;
    alignas(64) T columns[L][C][kBlock] = {}, g[C][kBlock] = {}, outs[L][C][kBlock];
    for (std::int64_t start = 0; start < n; start += kBlock) {
      const std::int64_t count = std::min(kBlock, n - start);
      // Past the end, a gradient of 0 at the point 0 adds nothing.
      for (int c = 0; c < C; ++c) std::fill(std::copy_n(gradients + c * n + start, count, g[c]), g[c] + kBlock, T(0));
      if (count < kBlock) std::fill_n(&columns[0][0][0], L * C * kBlock, T(0));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t inner = (i - begin) % L;
        if (inner == 0) load_group(source, start, count, i, end, columns);
        const auto& x = columns[inner];
        auto& out = outs[inner];
        T* cell_sums = sums + (i - begin) * kCopies * copy;
        Vec residual_sum = V::load(residual_sums + (i - begin) * L);
        for (std::int64_t s = 0; s < count; s += L) {
          Point p;
          Vec gradient[C];
          for (int c = 0; c < C; ++c) p.x[c] = V::load(&x[c][s]), gradient[c] = V::load(&g[c][s]);
          evaluate<kOrders + 1>(p, grid, w + (i - begin) * size, r[i]);
          // What multiplies phi' and phi'' in the sum of all components times their gradients.
          Vec slope{}, bend{};
          for (int d = 0; d < D; ++d) slope += gradient[1 + d] * p.x[1 + d];
          for (int d = 0; d < S; ++d) {
            slope += gradient[1 + D + d] * p.x[1 + D + d];
            bend += gradient[1 + D + d] * (p.x[1 + d] * p.x[1 + d]);
          }
          if (want_w) {
            Vec rows_of[4] = {gradient[0], gradient[0] * p.v, gradient[0] * p.half, gradient[0] * p.sixth};
            if constexpr (D > 0) rows_of[1] += slope, rows_of[2] += slope * p.v, rows_of[3] += slope * p.half;
            if constexpr (S > 0) rows_of[2] += bend, rows_of[3] += bend * p.v;
            scatter_rows<T, L, kCopies>(rows_of, p.cells, copy, cell_sums);
            residual_sum += gradient[0] * p.residual[0];
            if constexpr (D > 0) residual_sum += slope * p.residual[1];
            if constexpr (S > 0) residual_sum += bend * p.residual[2];
          }
          if (want_x) {
            Vec sum = gradient[0] * p.phi[1];
            if constexpr (D > 0) sum += slope * p.phi[2];
            if constexpr (S > 0) sum += bend * p.phi[3];
            V::store(&out[0][s], grid.inverse * sum);
            for (int d = 0; d < D; ++d) {
              Vec along = gradient[1 + d] * p.phi[1];
              if (d < S) along += T(2) * (gradient[1 + D + d] * (p.phi[2] * p.x[1 + d]));
              V::store(&out[1 + d][s], grid.inverse * along);
            }
            for (int d = 0; d < S; ++d) V::store(&out[1 + D + d][s], grid.inverse * (gradient[1 + D + d] * p.phi[1]));
          }
        }
        V::store(residual_sums + (i - begin) * L, residual_sum);
        if (want_x && (inner == L - 1 || i == end - 1))
          for (int c = 0; c < C; ++c)
            store_columns<T, L>(outs[0][c], C * kBlock, count, inner + 1,
                                dx + (c * n + start) * n_in + i - inner, n_in);
      }
    }
    if (!want_w) return;
    for (std::int64_t i = begin; i < end; ++i)
      unpack(model, i, sums + (i - begin) * kCopies * copy, residual_sums + (i - begin) * L);
    if (begin == 0) bias_gradient(model);
  }

  void unpack(std::int64_t model, std::int64_t i, const T* sums, const T* residual_sum) const {
    T* dw = scratch<T, 3>(n_cells + kDegree);
    std::fill(dw, dw + n_cells + kDegree, T(0));
    for (std::int64_t j = 0; j < n_cells; ++j)
      for (int q = 0; q < 4; ++q) {
        T moment = T(0);
        for (int k = 0; k < kCopies; ++k) moment += sums[k * size + 4 * j + q];
        for (int t = 0; t < 4; ++t) dw[j + t] += T(kCubic[t][q]) * moment;
      }
    const T scale = args.c.at(model)[i];
    const T* b = args.b.at(model) + i * n_basis;
    const std::int64_t edge = model * args.n_in + i;
    T scaled = T(0), residual = T(0);
    for (std::int64_t j = 0; j < n_basis; ++j) {
      args.db[edge * n_basis + j] = scale * dw[kDegree + j];
      scaled += b[j] * dw[kDegree + j];
    }
    for (int l = 0; l < L; ++l) residual += residual_sum[l];
    args.dc[edge] = scaled;
    args.dr[edge] = args.residual ? residual : T(0);
  }

  void bias_gradient(std::int64_t model) const {
    const T* g = args.g.at(model);
    T lanes[L] = {}, sum = T(0);
    std::int64_t s = 0;
    for (; s + L <= args.n; s += L)
      for (int l = 0; l < L; ++l) lanes[l] += g[s + l];
    for (; s < args.n; ++s) sum += g[s];
    for (int l = 0; l < L; ++l) sum += lanes[l];
    args.dbias[model] = sum;
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
