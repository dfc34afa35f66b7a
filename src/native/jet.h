// The fused layer: value and derivative components forward, all gradients backward.
//
// Forward, the input feature is the outer loop over a block of samples: the block's outputs and the
// feature's weights stay in the first-level cache. Backward, the samples of a block are first sorted
// by cell (a counting sort, stable), so that the gradient of a cell's weights is summed in registers
// and the cell's weights are loaded once for all of its samples.
#pragma once

#include <algorithm>

#include "basis.h"
#include "scratch.h"

namespace kandle {
namespace KANDLE_ISA {

// K = 0 stands for a degree known at run time.
template <class T, int L, int K, int D, int S>
struct Jet {
  static constexpr int C = 1 + D + S;
  static constexpr int kOrders = 1 + (D > 0) + (S > 0);  // orders of phi that the forward pass uses
  static constexpr int kMaxTaps = (K ? K : kMaxDegree) + 2;
  static constexpr int kTableLanes = kLanes<T>;
  static constexpr std::int64_t kForwardBlock = C == 1 ? 128 : 32;
  static constexpr std::int64_t kBackwardBlock = C == 1 ? 512 : 256;
  using Out = Simd<T, L>;
  using Vec = typename Out::Vec;
  using Tab = Simd<T, kTableLanes>;
  using TabVec = typename Tab::Vec;

  const JetArgs<T>& args;
  const int degree;
  const int taps;             // the residual's, then one for each active function
  const std::int64_t rows;    // of a feature's packed weights: the residual's, then padded coefficients
  const std::int64_t n_cells;
  const std::int64_t padded;  // n_out rounded up to whole vectors
  std::array<TapTable<T>, kOrders + 1> tables;

  explicit Jet(const JetArgs<T>& a)
      : args(a),
        degree(K ? K : a.spline.degree),
        taps(degree + 2),
        rows(2 + a.spline.grid + 3 * degree),
        n_cells(cell_count(a.spline)),
        padded(round_up(a.n_out, L)),
        tables(make_tables(a.spline, std::make_index_sequence<kOrders + 1>{})) {}

  template <std::size_t... I>
  static std::array<TapTable<T>, kOrders + 1> make_tables(const Spline& s, std::index_sequence<I...>) {
    return {TapTable<T>(s, static_cast<int>(I))...};
  }

  // A feature's weights as (rows, padded): r, then c b between rows of zeros.
  void pack(std::int64_t model, std::int64_t i, T* out) const {
    const std::int64_t n_in = args.n_in, n_out = args.n_out, m = args.spline.grid + degree;
    std::fill(out, out + rows * padded, T(0));
    const T *r = args.r.at(model), *c = args.c.at(model), *b = args.b.at(model);
    for (std::int64_t o = 0; o < n_out; ++o) {
      const std::int64_t edge = o * n_in + i;
      if (args.residual) out[o] = r[edge];
      const T scale = c[edge];
      for (std::int64_t j = 0; j < m; ++j) out[(1 + degree + j) * padded + o] = scale * b[edge * m + j];
    }
  }

  // x[c][s] holds the components of `count` points; coefficients of the forward sums go to
  // forward[c][t][s] and, with Backward, those of phi^(v) to phi[v-1][t][s] for v = 1 .. kOrders.
  template <bool Backward>
  void tabulate(const T* x, std::int64_t count, std::int64_t pitch, T* forward, T* phi,
                std::int32_t* cells) const {
    constexpr int kTop = kOrders + (Backward ? 1 : 0);
    for (std::int64_t s = 0; s < count; s += kTableLanes) {
      TabVec in[C];
      for (int c = 0; c < C; ++c) in[c] = Tab::load(x + c * pitch + s);
      const auto at = locate<T, kTableLanes>(in[0], args.spline);
      if (cells) store_cells(at, cells + s);
      TabVec values[kTop][kMaxTaps], residual[kTop];
      if (args.residual) {
        evaluate_silu<T, kTableLanes, kTop>(in[0], residual);
      } else {
        for (int v = 0; v < kTop; ++v) residual[v] = TabVec{};
      }
#pragma GCC unroll 4
      for (int v = 0; v < kTop; ++v) {
        values[v][0] = residual[v];
        evaluate_taps<T, kTableLanes, K>(tables[v], degree, v, at, values[v] + 1);
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
        if constexpr (Backward)
          for (int v = 1; v < kTop; ++v) Tab::store(phi + ((v - 1) * taps + t) * pitch + s, values[v][t]);
      }
    }
  }

  static void store_cells(const Located<T, kTableLanes>& at, std::int32_t* out) {
    const auto narrow = __builtin_convertvector(at.cell, typename Tab::Index);
    std::memcpy(out, &narrow, sizeof narrow);
  }

  const T* x_at(std::int64_t model) const { return args.x.at(model); }

  // ---- forward -----------------------------------------------------------------------------------

  template <int Chunk>
  void accumulate(const T* w, const T* table, const std::int32_t* cells, std::int64_t count,
                  std::int64_t column, T* y) const {
    constexpr std::int64_t pitch = kForwardBlock;
    const int n_taps = K ? K + 2 : taps;
    for (std::int64_t s = 0; s < count; ++s) {
      const T* cell = w + (1 + cells[s]) * padded + column;
      T* out = y + s * padded + column;
      const std::int64_t component = pitch * padded;
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
    T* y = scratch<T, 1>(C * B * padded);
    alignas(64) T x[C * B], table[C * kMaxTaps * B];
    alignas(64) std::int32_t cells[B];
    const T *source = x_at(model), *bias = args.bias.at(model);
    T* target = args.y + model * C * n * n_out;
    constexpr int kWide = C == 1 ? 4 : 2;
    for (std::int64_t start = begin; start < end; start += B) {
      const std::int64_t count = std::min(B, end - start), whole = round_up(count, kTableLanes);
      std::fill(y, y + C * B * padded, T(0));
      for (std::int64_t s = 0; s < count; ++s) std::copy(bias, bias + n_out, y + s * padded);
      std::fill(x, x + C * B, T(0));
      for (std::int64_t i = 0; i < n_in; ++i) {
        for (int c = 0; c < C; ++c)
          for (std::int64_t s = 0; s < count; ++s) x[c * B + s] = source[(c * n + start + s) * n_in + i];
        tabulate<false>(x, whole, B, table, nullptr, cells);
        const T* w = packed + i * rows * padded;
        std::int64_t v = 0;
        for (; v + kWide <= vectors; v += kWide) accumulate<kWide>(w, table, cells, count, v * L, y);
        if constexpr (kWide > 2)
          for (; v + 2 <= vectors; v += 2) accumulate<2>(w, table, cells, count, v * L, y);
        for (; v < vectors; ++v) accumulate<1>(w, table, cells, count, v * L, y);
      }
      for (int c = 0; c < C; ++c)
        for (std::int64_t s = 0; s < count; ++s) {
          const T* row = y + (c * B + s) * padded;
          std::copy(row, row + n_out, target + (c * n + start + s) * n_out);
        }
    }
  }

  // ---- backward ----------------------------------------------------------------------------------

  struct Run {
    const T* g;               // gradients, (C, N, pitch of rows)
    std::int64_t g_pitch;     // elements from one sample to the next
    std::int64_t g_component;
    const std::int32_t* sample;  // where the s-th sorted point is among the block's samples
    const T *forward, *phi, *x;  // tables in sorted order
    std::int64_t begin, end;     // the sorted points of one cell
  };

  template <int Chunk>
  void weight_gradient(const Run& run, std::int64_t column, T* residual_row, T* cell) const {
    constexpr std::int64_t pitch = kBackwardBlock;
    const int n_taps = K ? K + 2 : taps;
    Vec acc[kMaxTaps][Chunk];
    for (int t = 0; t < n_taps; ++t)
      for (int v = 0; v < Chunk; ++v)
        acc[t][v] = Out::load((t ? cell + (t - 1) * padded : residual_row) + column + v * L);
    for (std::int64_t s = run.begin; s < run.end; ++s) {
      const T* g = run.g + run.sample[s] * run.g_pitch + column;
#pragma GCC unroll 5
      for (int c = 0; c < C; ++c) {
        Vec gradient[Chunk];
        for (int v = 0; v < Chunk; ++v) gradient[v] = Out::load(g + c * run.g_component + v * L);
#pragma GCC unroll 7
        for (int t = 0; t < n_taps; ++t) {
          const T scale = run.forward[(c * n_taps + t) * pitch + s];
          for (int v = 0; v < Chunk; ++v) acc[t][v] += scale * gradient[v];
        }
      }
    }
    for (int t = 0; t < n_taps; ++t)
      for (int v = 0; v < Chunk; ++v)
        Out::store((t ? cell + (t - 1) * padded : residual_row) + column + v * L, acc[t][v]);
  }

  // Adds to q[c][s] the lanes of the gradient with respect to component c of the s-th point.
  template <int Chunk>
  void input_gradient(const Run& run, std::int64_t column, const T* residual_row, const T* cell, T* q,
                      bool fresh) const {
    constexpr std::int64_t pitch = kBackwardBlock;
    const int n_taps = K ? K + 2 : taps;
    Vec weight[kMaxTaps][Chunk];
    for (int t = 0; t < n_taps; ++t)
      for (int v = 0; v < Chunk; ++v)
        weight[t][v] = Out::load((t ? cell + (t - 1) * padded : residual_row) + column + v * L);
    for (std::int64_t s = run.begin; s < run.end; ++s) {
      const T* g = run.g + run.sample[s] * run.g_pitch + column;
      Vec sums[C] = {};
      if (!fresh)
        for (int c = 0; c < C; ++c) sums[c] = Out::load(q + (c * pitch + s) * L);
      for (int v = 0; v < Chunk; ++v) {
        Vec f[kOrders];
        for (int order = 0; order < kOrders; ++order) {
          f[order] = run.phi[(order * n_taps) * pitch + s] * weight[0][v];
#pragma GCC unroll 7
          for (int t = 1; t < n_taps; ++t) f[order] += run.phi[(order * n_taps + t) * pitch + s] * weight[t][v];
        }
        Vec gradient[C];
        for (int c = 0; c < C; ++c) gradient[c] = Out::load(g + c * run.g_component + v * L);
        sums[0] += gradient[0] * f[0];
        for (int d = 0; d < D; ++d) {
          const T xd = run.x[(1 + d) * pitch + s];
          if constexpr (D > 0) sums[0] += xd * (gradient[1 + d] * f[kOrders > 1 ? 1 : 0]);
          sums[1 + d] += gradient[1 + d] * f[0];
        }
        for (int d = 0; d < S; ++d) {
          const T xd = run.x[(1 + d) * pitch + s], xdd = run.x[(1 + D + d) * pitch + s];
          const Vec second = gradient[1 + D + d];
          const Vec bent = second * f[kOrders > 1 ? 1 : 0];
          sums[0] += (xd * xd) * (second * f[kOrders > 2 ? 2 : 0]) + xdd * bent;
          sums[1 + d] += (T(2) * xd) * bent;
          sums[1 + D + d] += second * f[0];
        }
      }
      for (int c = 0; c < C; ++c) Out::store(q + (c * pitch + s) * L, sums[c]);
    }
  }

  // Stable counting sort of the block's cells: `order` lists the samples cell by cell, `starts` the
  // first place of every cell. Each quarter of the block has its own counters, because a counter that
  // one sample has just changed makes the next one wait.
  void sort_cells(const std::int32_t* cells, std::int64_t count, std::int32_t* starts,
                  std::int32_t* order) const {
    constexpr int kParts = 4;
    const std::int64_t part = count / kParts;
    std::int32_t* counters = scratch<std::int32_t, 6>(kParts * n_cells);
    std::fill(counters, counters + kParts * n_cells, 0);
    for (std::int64_t s = 0; s < part; ++s)
      for (int q = 0; q < kParts; ++q) ++counters[q * n_cells + cells[q * part + s]];
    for (std::int64_t s = kParts * part; s < count; ++s) ++counters[(kParts - 1) * n_cells + cells[s]];
    std::int32_t place = 0;
    for (std::int64_t j = 0; j < n_cells; ++j) {
      starts[j] = place;
      for (int q = 0; q < kParts; ++q) {
        const std::int32_t size = counters[q * n_cells + j];
        counters[q * n_cells + j] = place;
        place += size;
      }
    }
    starts[n_cells] = place;
    for (std::int64_t s = 0; s < part; ++s)
      for (int q = 0; q < kParts; ++q)
        order[counters[q * n_cells + cells[q * part + s]]++] = static_cast<std::int32_t>(q * part + s);
    for (std::int64_t s = kParts * part; s < count; ++s)
      order[counters[(kParts - 1) * n_cells + cells[s]]++] = static_cast<std::int32_t>(s);
  }

  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t B = kBackwardBlock;
    const std::int64_t n_in = args.n_in, n_out = args.n_out, n = args.n, vectors = padded / L;
    const std::int64_t feature = rows * padded, features = end - begin;
    const bool want_x = args.dx != nullptr, want_w = args.dr != nullptr;
    const T* source = x_at(model);
    const T* gradients = args.g.at(model);
    T* packed = scratch<T, 0>(want_x ? features * feature : 0);
    if (want_x)
      for (std::int64_t i = begin; i < end; ++i) pack(model, i, packed + (i - begin) * feature);
    T* dw = scratch<T, 1>(want_w ? features * feature : 0);
    if (want_w) std::fill(dw, dw + features * feature, T(0));
    T* copies = padded == n_out ? nullptr : scratch<T, 2>(C * B * padded);
    T* tables = scratch<T, 3>((C + kOrders) * kMaxTaps * B + C * B * L);
    T* phi = tables + C * kMaxTaps * B;
    T* q = phi + kOrders * kMaxTaps * B;
    std::int32_t* starts = scratch<std::int32_t, 4>(n_cells + 1);
    alignas(64) T x[C * B];
    alignas(64) std::int32_t cells[B], order[B];
    for (std::int64_t start = 0; start < n; start += B) {
      const std::int64_t count = std::min(B, n - start), whole = round_up(count, kTableLanes);
      Run run{};
      run.forward = tables, run.phi = phi, run.x = x, run.sample = order;
      if (copies) {
        for (int c = 0; c < C; ++c)
          for (std::int64_t s = 0; s < count; ++s) {
            const T* row = gradients + (c * n + start + s) * n_out;
            T* out = copies + (c * B + s) * padded;
            for (std::int64_t o = 0; o < padded; ++o) out[o] = o < n_out ? row[o] : T(0);
          }
        run.g = copies, run.g_pitch = padded, run.g_component = B * padded;
      } else {
        run.g = gradients + start * n_out, run.g_pitch = n_out, run.g_component = n * n_out;
      }
      for (std::int64_t i = begin; i < end; ++i) {
        const T* from = source + start * n_in + i;
        for (std::int64_t s = 0; s < count; ++s) x[s] = from[s * n_in];
        for (std::int64_t s = count; s < whole; ++s) x[s] = T(0);
        for (std::int64_t s = 0; s < whole; s += kTableLanes)
          store_cells(locate<T, kTableLanes>(Tab::load(x + s), args.spline), cells + s);
        sort_cells(cells, count, starts, order);
        for (int c = 0; c < C; ++c) {
          const T* component = from + c * n * n_in;
          for (std::int64_t s = 0; s < count; ++s) x[c * B + s] = component[order[s] * n_in];
          for (std::int64_t s = count; s < whole; ++s) x[c * B + s] = T(0);
        }
        tabulate<true>(x, whole, B, tables, phi, nullptr);
        const T* w = packed + (i - begin) * feature;
        T* gradient = dw + (i - begin) * feature;
        for (std::int64_t j = 0; j < n_cells; ++j) {
          run.begin = starts[j], run.end = starts[j + 1];
          if (run.begin == run.end) continue;
          const std::int64_t cell = (1 + j) * padded;
          if (want_w) {
            std::int64_t v = 0;
            for (; v + 2 <= vectors; v += 2) weight_gradient<2>(run, v * L, gradient, gradient + cell);
            for (; v < vectors; ++v) weight_gradient<1>(run, v * L, gradient, gradient + cell);
          }
          if (want_x) {
            std::int64_t v = 0;
            if constexpr (C == 1)
              for (; v + 2 <= vectors; v += 2) input_gradient<2>(run, v * L, w, w + cell, q, v == 0);
            for (; v < vectors; ++v) input_gradient<1>(run, v * L, w, w + cell, q, v == 0);
          }
        }
        if (want_x) write_input_gradient(model, start, count, i, order, q);
      }
    }
    if (want_w) {
      for (std::int64_t i = begin; i < end; ++i) unpack(model, i, dw + (i - begin) * feature);
      if (begin == 0) bias_gradient(model);
    }
  }

  void write_input_gradient(std::int64_t model, std::int64_t start, std::int64_t count, std::int64_t i,
                            const std::int32_t* order, const T* q) const {
    const std::int64_t n = args.n, n_in = args.n_in;
    for (int c = 0; c < C; ++c) {
      T* out = args.dx + ((model * C + c) * n + start) * n_in + i;
      const T* lanes = q + c * kBackwardBlock * L;
      for (std::int64_t s = 0; s < count; s += L) {
        // The block is a multiple of L long; sums past `count` are of stale lanes and are not written.
        const Vec sums = lane_sums<T, L>(lanes + s * L);
        const std::int64_t lanes_left = std::min<std::int64_t>(L, count - s);
        for (std::int64_t l = 0; l < lanes_left; ++l) out[order[s + l] * n_in] = sums[l];
      }
    }
  }

  // dW (rows, padded) to dr, dc = sum_m b dW and db = c dW.
  void unpack(std::int64_t model, std::int64_t i, const T* dw) const {
    const std::int64_t n_in = args.n_in, n_out = args.n_out, m = args.spline.grid + degree;
    const T *c = args.c.at(model), *b = args.b.at(model);
    for (std::int64_t o = 0; o < n_out; ++o) {
      const std::int64_t edge = o * n_in + i, all = model * n_out * n_in + edge;
      args.dr[all] = args.residual ? dw[o] : T(0);
      T sum = T(0);
      for (std::int64_t j = 0; j < m; ++j) {
        const T value = dw[(1 + degree + j) * padded + o];
        args.db[all * m + j] = c[edge] * value;
        sum += b[edge * m + j] * value;
      }
      args.dc[all] = sum;
    }
  }

  void bias_gradient(std::int64_t model) const {
    const std::int64_t n = args.n, n_out = args.n_out;
    const T* g = args.g.at(model);
    T* out = args.dbias + model * n_out;
    std::int64_t o = 0;
    for (; o + L <= n_out; o += L) {
      // Four sums a column: shorter chains, and smaller rounding errors.
      Vec sums[4] = {};
      for (std::int64_t s = 0; s < n; ++s) sums[s % 4] += Out::load(g + s * n_out + o);
      Out::store(out + o, (sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    for (; o < n_out; ++o) {
      T sums[4] = {};
      for (std::int64_t s = 0; s < n; ++s) sums[s % 4] += g[s * n_out + o];
      out[o] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
