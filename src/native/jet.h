// The fused layer forward: its value and derivative components.
//
// The input feature is the outer loop over a block of samples: the block's outputs and the
// feature's weights stay in the first-level cache. Inputs are turned a few features at a time, so
// that a feature's samples are contiguous.
#pragma once

#include <algorithm>

#include "basis.h"
#include "scratch.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

// K = 0 stands for a degree known at run time.
template <class T, int L, int K, int D, int S>
struct Jet {
  static constexpr int C = 1 + D + S;
  static constexpr int kOrders = 1 + (D > 0) + (S > 0);  // orders of phi that the forward pass uses
  static constexpr int kMaxTaps = (K ? K : kMaxDegree) + 2;
  static constexpr int kTableLanes = kLanes<T>;
  static constexpr int kGroup = kTableLanes;  // features that are turned together
  static constexpr std::int64_t kForwardBlock = C == 1 ? 128 : 32;
  using Out = Simd<T, L>;
  using Vec = typename Out::Vec;
  using Tab = Simd<T, kTableLanes>;
  using TabVec = typename Tab::Vec;

  const JetArgs<T>& args;
  const Cells<T> cell_grid;
  const int degree;
  const int taps;  // the residual's, then one for each active function
  const std::int64_t
      rows;  // of a feature's packed weights: the residual's, then padded coefficients
  const std::int64_t n_cells;
  const std::int64_t padded;  // n_out rounded up to whole vectors, at least one
  std::array<TapTable<T>, kOrders + 1> tables;

  explicit Jet(const JetArgs<T>& a)
      : args(a),
        cell_grid(a.spline),
        degree(K ? K : a.spline.degree),
        taps(degree + 2),
        rows(2 + a.spline.grid + 3 * degree),
        n_cells(cell_count(a.spline)),
        padded(round_up(std::max<std::int64_t>(a.n_out, 1), L)),
        tables(make_tables(a.spline, std::make_index_sequence<kOrders + 1>{})) {}

  template <std::size_t... I>
  static std::array<TapTable<T>, kOrders + 1> make_tables(const Spline& s,
                                                          std::index_sequence<I...>) {
    return {TapTable<T>(s, static_cast<int>(I))...};
  }

  // A feature's weights as (rows, padded): r, then c b between rows of zeros.
  void pack(std::int64_t model, std::int64_t i, T* out) const {
    load_weights(args, model, i, degree, rows - 1, padded, out, out + padded);
  }

  // x[c][s] holds the components of `count` points; coefficients of the forward sums go to
  // forward[c][t][s] and, with Backward, those of phi^(v) to phi[v-1][t][s] for v = 1 .. kOrders.
  // Of cubics, phi holds instead what their Taylor polynomials need: x - x_0 with x_0 the centre of
  // the cell, half its square, and the derivatives of R.
  template <bool Backward>
  void tabulate(const T* x, std::int64_t count, std::int64_t pitch, T* forward, T* phi,
                std::int32_t* cells) const {
    constexpr int kTop = kOrders + (Backward ? 1 : 0);
    const Cells<T> grid = cell_grid;
    const auto polynomials = tables;  // copied for the same reason as the cells
    const bool residuals = args.residual;
    for (std::int64_t s = 0; s < count; s += kTableLanes) {
      TabVec in[C];
      for (int c = 0; c < C; ++c) in[c] = Tab::load(x + c * pitch + s);
      const auto at = locate<T, kTableLanes>(in[0], grid);
      if (cells) store_cells(at, cells + s);
      constexpr int kTabled = K == 3 ? kOrders : kTop;
      TabVec values[kTop][kMaxTaps], residual[kTop];
      if (residuals) {
        evaluate_silu<T, kTableLanes, kTop>(in[0], residual);
      } else {
        for (int v = 0; v < kTop; ++v) residual[v] = TabVec{};
      }
#pragma GCC unroll 4
      for (int v = 0; v < kTabled; ++v) {
        values[v][0] = residual[v];
        evaluate_taps<T, kTableLanes, K>(polynomials[v], degree, v, at, values[v] + 1);
      }
#pragma GCC unroll 7
      for (int t = 0; t < (K ? K + 2 : taps); ++t) {
        T* out = forward + t * pitch + s;
        const std::int64_t component = taps * pitch;
        Tab::store(out, values[0][t]);
        for (int d = 0; d < D; ++d) Tab::store(out + (1 + d) * component, values[1][t] * in[1 + d]);
        for (int d = 0; d < S; ++d)
          Tab::store(out + (1 + D + d) * component,
                     values[2][t] * (in[1 + d] * in[1 + d]) + values[1][t] * in[1 + D + d]);
        if constexpr (Backward && K != 3)
          for (int v = 1; v < kTop; ++v)
            Tab::store(phi + ((v - 1) * taps + t) * pitch + s, values[v][t]);
      }
      if constexpr (Backward && K == 3) {
        const TabVec offset = (at.u - T(0.5)) / grid.inverse;
        Tab::store(phi + s, offset);
        Tab::store(phi + pitch + s, T(0.5) * (offset * offset));
        for (int v = 1; v < kTop; ++v) Tab::store(phi + (1 + v) * pitch + s, residual[v]);
      }
    }
  }

  static void store_cells(const Located<T, kTableLanes>& at, std::int32_t* out) {
    const auto narrow = __builtin_convertvector(at.cell, typename Tab::Index);
    std::memcpy(out, &narrow, sizeof narrow);
  }

  template <int Chunk>
  void accumulate(const T* w, const T* table, const std::int32_t* cells, std::int64_t count,
                  std::int64_t column, T* y, std::int64_t component) const {
    constexpr std::int64_t pitch = kForwardBlock;
    const int n_taps = K ? K + 2 : taps;
    for (std::int64_t s = 0; s < count; ++s) {
      const T* cell = w + (1 + cells[s]) * padded + column;
      T* out = y + s * padded + column;
      Vec acc[C][Chunk];
      for (int c = 0; c < C; ++c)
        for (int v = 0; v < Chunk; ++v) acc[c][v] = Out::load(out + c * component + v * L);
#pragma GCC unroll 7
      for (int t = 0; t < n_taps; ++t) {
        const T* row = t ? cell + (t - 1) * padded : w + column;
        Vec weight[Chunk];
        for (int v = 0; v < Chunk; ++v) weight[v] = Out::load(row + v * L);
        for (int c = 0; c < C; ++c) {
          const T scale = table[(c * n_taps + t) * pitch + s];
          for (int v = 0; v < Chunk; ++v) acc[c][v] += scale * weight[v];
        }
      }
      for (int c = 0; c < C; ++c)
        for (int v = 0; v < Chunk; ++v) Out::store(out + c * component + v * L, acc[c][v]);
    }
  }

  void forward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t B = kForwardBlock;
    const std::int64_t n_in = args.n_in, n_out = args.n_out, n = args.n, vectors = padded / L;
    T* packed = scratch<T, 0>(n_in * rows * padded);
    for (std::int64_t i = 0; i < n_in; ++i) pack(model, i, packed + i * rows * padded);
    // Whole vectors of outputs are summed where they belong, others in a block of padded rows.
    const bool in_place = padded == n_out;
    T* block = in_place ? nullptr : scratch<T, 1>(C * B * padded);
    const std::int64_t component = in_place ? n * n_out : B * padded;
    alignas(64) T x[kGroup * C * B] = {}, table[C * kMaxTaps * B];
    alignas(64) std::int32_t cells[B];
    const T* source = args.x.at(model);
    T* bias = scratch<T, 2>(padded);
    std::fill(std::copy_n(args.bias.at(model), n_out, bias), bias + padded, T(0));
    T* target = args.y + model * C * n * n_out;
    constexpr int kWide = C == 1 ? 4 : 2;
    for (std::int64_t start = begin; start < end; start += B) {
      const std::int64_t count = std::min(B, end - start), whole = round_up(count, kTableLanes);
      T* y = in_place ? target + start * n_out : block;
      for (std::int64_t s = 0; s < count; ++s)
        for (std::int64_t v = 0; v < vectors; ++v)
          Out::store(y + s * padded + v * L, Out::load(bias + v * L));
      for (int c = 1; c < C; ++c) std::fill_n(y + c * component, count * padded, T(0));
      for (std::int64_t i = 0; i < n_in; ++i) {
        const std::int64_t inner = i % kGroup;
        if (inner == 0)
          for (int c = 0; c < C; ++c)
            load_columns<T, kGroup>(source + (c * n + start) * n_in + i, n_in, count,
                                    std::min<std::int64_t>(kGroup, n_in - i), x + c * B, C * B);
        tabulate<false>(x + inner * C * B, whole, B, table, nullptr, cells);
        const T* w = packed + i * rows * padded;
        std::int64_t v = 0;
        for (; v + kWide <= vectors; v += kWide)
          accumulate<kWide>(w, table, cells, count, v * L, y, component);
        if constexpr (kWide > 2)
          for (; v + 2 <= vectors; v += 2)
            accumulate<2>(w, table, cells, count, v * L, y, component);
        for (; v < vectors; ++v) accumulate<1>(w, table, cells, count, v * L, y, component);
      }
      if (!in_place)
        for (int c = 0; c < C; ++c)
          for (std::int64_t s = 0; s < count; ++s)
            std::copy_n(y + (c * B + s) * padded, n_out, target + (c * n + start + s) * n_out);
    }
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
