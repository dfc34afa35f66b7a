// The layer with few outputs, one vector of them, and cubic splines: lanes run over outputs, and
// every cell has one row of outputs per Taylor coefficient (taylor.h).
#pragma once

#include <algorithm>

#include "lookup.h"
#include "points.h"
#include "scratch.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T, int L, int D, int S>
struct Slim {
  using Points = PointTable<T, D, S>;
  static constexpr int C = Points::C, kOrders = Points::kOrders, kTable = Points::kTable;
  static constexpr int kTableLanes = kLanes<T>;
  static constexpr int kGroup = kTileFeatures<T>;  // features that are turned together
  static constexpr std::int64_t kForwardBlock = C == 1 ? 128 : 32,
                                kBackwardBlock = C == 1 ? 512 : 256;
  // Samples that follow each other add to different copies of the sums, so that points of one cell
  // do not wait for each other.
  static constexpr int kCopies = 2;
  using Out = Simd<T, L>;
  using Vec = typename Out::Vec;

  // A point of a table of blocks of B.
  template <std::int64_t B>
  struct Point : Points::template Point<Row<T, 1>, B> {
    Vec twice_along(int d, Vec g, Vec phi2) const { return (T(2) * this->along(d)) * (g * phi2); }
  };

  const JetArgs<T>& args;
  const Cells<T> cell_grid;
  const std::int64_t n_cells, rows;  // rows of a feature: the residual's, then kRows per cell

  explicit Slim(const JetArgs<T>& a)
      : args(a), cell_grid(a.spline), n_cells(cell_count(a.spline)), rows(1 + kRows * n_cells) {}

  Tile tile(std::int64_t feature, std::int64_t end) const {
    return {feature,
            std::min<std::int64_t>(kGroup, end - feature),
            0,
            args.n_out,
            1 + n_cells + kCubicDegree,
            L};
  }

  // The rows of features begin .. end - 1, each r and then the coefficients of every cell.
  template <bool Horner>
  void pack(std::int64_t model, std::int64_t begin, std::int64_t end, T* out) const {
    for (std::int64_t i = begin; i < end; i += kGroup) {
      const Tile part = tile(i, end);
      const std::int64_t size = part.rows * L;
      T* weights = scratch<T, 4>(part.features * size);
      load_weights<T, L>(args, model, part, kCubicDegree, weights);
      for (std::int64_t f = 0; f < part.features; ++f, out += rows * L) {
        std::copy_n(weights + f * size, L, out);
        weights_to_rows<T, L, Horner>(weights + f * size + L, n_cells, out + L);
      }
    }
  }

  // x[c][s] holds the components of `count` points.
  template <int Orders, std::int64_t B>
  void tabulate(const T* x, std::int64_t count, T* table, std::int32_t* cells) const {
    Points::template tabulate<Orders, B>(x, count, cell_grid, args.residual, table, cells);
  }

  // Adds F features, whose tables follow each other, to the outputs of `count` points.
  template <int F>
  void accumulate(const T* w, const T* table, const std::int32_t* cells, std::int64_t count, T* y,
                  std::int64_t component) const {
    constexpr std::int64_t B = kForwardBlock;
    Vec r[F];
    for (int f = 0; f < F; ++f) r[f] = Out::load(w + f * rows * L);
    for (std::int64_t s = 0; s < count; ++s) {
      T* out = y + s * L;
      Vec acc[C];
      for (int c = 0; c < C; ++c) acc[c] = Out::load(out + c * component);
#pragma GCC unroll 2
      for (int f = 0; f < F; ++f) {
        const T* cell =
            w + (f * rows + 1 + kRows * static_cast<std::int64_t>(cells[f * B + s])) * L;
        const Point<B> p{{table + f * kTable * B + s}};
        const Vec d[kRows] = {Out::load(cell), Out::load(cell + L), Out::load(cell + 2 * L),
                              Out::load(cell + 3 * L)};
        if constexpr (C == 1) {
          const T v = p.v();
          Vec phi = d[3] * v + d[2];
          phi = phi * v + d[1];
          phi = phi * v + d[0];
          acc[0] += phi + r[f] * p.residual(0);
        } else {
          const Vec slope = polynomial<1>(d, r[f], p);
          acc[0] += polynomial<0>(d, r[f], p);
          for (int j = 0; j < D; ++j) acc[1 + j] += slope * p.along(j);
          if constexpr (S > 0) {
            const Vec bend = polynomial<2>(d, r[f], p);
            for (int j = 0; j < S; ++j)
              acc[1 + D + j] += bend * (p.along(j) * p.along(j)) + slope * p.bent(j);
          }
        }
      }
      for (int c = 0; c < C; ++c) Out::store(out + c * component, acc[c]);
    }
  }

  void forward(std::int64_t model, Range samples, Range) const {
    constexpr std::int64_t B = kForwardBlock;
    const std::int64_t n_in = args.n_in, n_out = args.n_out, n = args.n;
    T* packed = scratch<T, 0>(n_in * rows * L);
    pack<C == 1>(model, 0, n_in, packed);
    // A whole vector of outputs is summed where it belongs, fewer in a block of padded rows.
    const bool in_place = n_out == L;
    T* block = in_place ? nullptr : scratch<T, 1>(C * B * L);
    const std::int64_t component = in_place ? n * n_out : B * L;
    alignas(64) T x[kGroup * C * B] = {}, table[2 * kTable * B];
    alignas(64) std::int32_t cells[2 * B];
    const T* source = args.x.at(model);
    T bias_row[L] = {};
    std::copy_n(args.bias.at(model), n_out, bias_row);
    const Vec bias = Out::load(bias_row);
    T* target = args.y + model * C * n * n_out;
    for (std::int64_t start = samples.begin; start < samples.end; start += B) {
      const std::int64_t count = std::min(B, samples.end - start);
      const std::int64_t whole = round_up(count, kTableLanes);
      T* y = in_place ? target + start * n_out : block;
      for (std::int64_t s = 0; s < count; ++s) Out::store(y + s * L, bias);
      for (int c = 1; c < C; ++c) std::fill_n(y + c * component, count * L, T(0));
      for (std::int64_t i = 0; i < n_in; i += 2) {
        const std::int64_t inner = i % kGroup, features = std::min<std::int64_t>(2, n_in - i);
        if (inner == 0)
          for (int c = 0; c < C; ++c)
            load_columns<T, kGroup>(source + (c * n + start) * n_in + i, n_in, count,
                                    std::min<std::int64_t>(kGroup, n_in - i), x + c * B, C * B);
        for (std::int64_t f = 0; f < features; ++f)
          tabulate<kOrders, B>(x + (inner + f) * C * B, whole, table + f * kTable * B,
                               cells + f * B);
        const T* w = packed + i * rows * L;
        features == 2 ? accumulate<2>(w, table, cells, count, y, component)
                      : accumulate<1>(w, table, cells, count, y, component);
      }
      if (!in_place)
        for (int c = 0; c < C; ++c)
          for (std::int64_t s = 0; s < count; ++s)
            std::copy_n(y + (c * B + s) * L, n_out, target + (c * n + start + s) * n_out);
    }
  }

  // One feature on one block: adds the moments of its gradients to `sums` and puts the lanes of
  // those of its inputs into q[c][s].
  template <bool WantX, bool WantW>
  void feature(const T* table, const std::int32_t* cells, std::int64_t count, const T* g,
               std::int64_t g_component, const T* w, T* sums, T* q) const {
    constexpr std::int64_t B = kBackwardBlock;
    const std::int64_t copy = rows * L;
    Vec residual[kCopies] = {};
    if constexpr (WantW)
      for (int k = 0; k < kCopies; ++k) residual[k] = Out::load(sums + k * copy);
    Vec r{};
    if constexpr (WantX) r = Out::load(w);
    const auto add = [&](std::int64_t s, int k) {
      const std::int64_t cell = (1 + kRows * static_cast<std::int64_t>(cells[s])) * L;
      const Point<B> p{{table + s}};
      const OutputGradient<Vec, D, S> gradient(
          p, [&](int c) { return Out::load(g + c * g_component + s * L); });
      if constexpr (WantW) {
        T* moment = sums + k * copy + cell;
        Vec m[kRows];
#pragma GCC unroll 4
        for (int row = 0; row < kRows; ++row) m[row] = Out::load(moment + row * L);
        gradient.template add_moments<false>(p, m, residual[k]);
#pragma GCC unroll 4
        for (int row = 0; row < kRows; ++row) Out::store(moment + row * L, m[row]);
      }
      if constexpr (WantX) {
        const T* of = w + cell;
        const Vec d[kRows] = {Vec{}, Out::load(of + L), Out::load(of + 2 * L),
                              Out::load(of + 3 * L)};
        gradient.input_gradients(d, r, p,
                                 [&](int c, Vec value) { Out::store(q + (c * B + s) * L, value); });
      }
    };
    std::int64_t s = 0;
    for (; s + kCopies <= count; s += kCopies)
#pragma GCC unroll 4
      for (int k = 0; k < kCopies; ++k) add(s + k, k);
    for (int k = 0; s < count; ++s, ++k) add(s, k);
    if constexpr (WantW)
      for (int k = 0; k < kCopies; ++k) Out::store(sums + k * copy, residual[k]);
  }

  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    // Without derivatives the sums over lanes cost less than a second pass over a table.
    const bool second_pass = C > 1 ? args.n_out <= 8 : args.n_out <= 4;
    const bool done =
        second_pass && with_lookup<T, D, S>(args, [&](const auto& lookup) {
          const typename std::decay_t<decltype(lookup)>::template InputGradients<kBackwardBlock>
              inputs(lookup, model, begin, args.want_x ? end : begin);
          backward(model, begin, end, &inputs);
        });
    if (!done) backward(model, begin, end, static_cast<const ByLanes*>(nullptr));
  }

  struct ByLanes {};

  // The gradients of the inputs come from `inputs`, which reads the same tables, or else from sums
  // over lanes, computed together with those of the weights.
  template <class Inputs>
  void backward(std::int64_t model, std::int64_t begin, std::int64_t end,
                const Inputs* inputs) const {
    constexpr std::int64_t B = kBackwardBlock;
    constexpr bool kLookup = !std::is_same_v<Inputs, ByLanes>;
    const std::int64_t n_in = args.n_in, n_out = args.n_out, n = args.n;
    const bool want_x = args.want_x, want_w = args.want_w, by_lanes = want_x && !kLookup;
    const std::int64_t size = rows * L, features = end - begin, sums = kCopies * size;
    const T *source = args.x.at(model), *gradients = args.g.at(model), scale = cell_grid.inverse;
    T* packed = scratch<T, 0>(by_lanes ? features * size : 0);
    if (by_lanes) pack<false>(model, begin, end, packed);
    T* moments = scratch<T, 1>(want_w ? features * sums : 0);
    if (want_w) std::fill(moments, moments + features * sums, T(0));
    T* copies = n_out == L ? nullptr : scratch<T, 2>(C * B * L);
    T* x = scratch<T, 3>(2 * kGroup * C * B + kTable * B + C * B * L);
    T *dx = x + kGroup * C * B, *table = dx + kGroup * C * B, *q = table + kTable * B;
    std::int32_t* cells = scratch<std::int32_t, 4>(B);
    std::fill(x, x + kGroup * C * B, T(0));
    for (std::int64_t start = 0; start < n; start += B) {
      const std::int64_t count = std::min(B, n - start);
      const T* g = gradients + start * n_out;
      std::int64_t g_component = n * n_out;
      if (copies) {
        for (int c = 0; c < C; ++c)
          for (std::int64_t s = 0; s < count; ++s) {
            const T* row = gradients + (c * n + start + s) * n_out;
            for (std::int64_t o = 0; o < L; ++o)
              copies[(c * B + s) * L + o] = o < n_out ? row[o] : T(0);
          }
        g = copies, g_component = B * L;
      }
      if constexpr (kLookup)
        if (want_x) inputs->load_block(model, start, count);
      for (std::int64_t group = begin; group < end; group += kGroup) {
        const std::int64_t width = std::min<std::int64_t>(kGroup, end - group);
        for (int c = 0; c < C; ++c)
          load_columns<T, kGroup>(source + (c * n + start) * n_in + group, n_in, count, width,
                                  x + c * B, C * B);
        for (std::int64_t j = 0; j < width; ++j) {
          const std::int64_t i = group - begin + j;
          tabulate<kOrders + 1, B>(x + j * C * B, round_up(count, kTableLanes), table, cells);
          const T* w = packed + i * size;
          T* sum = moments + i * sums;
          if (by_lanes && want_w)
            feature<true, true>(table, cells, count, g, g_component, w, sum, q);
          else if (by_lanes)
            feature<true, false>(table, cells, count, g, g_component, w, sum, q);
          else if (want_w)
            feature<false, true>(table, cells, count, g, g_component, w, sum, q);
          if (by_lanes)
            // The block is a multiple of L long; sums past `count` are of stale lanes and are not
            // written.
            for (int c = 0; c < C; ++c)
              for (std::int64_t s = 0; s < count; s += L)
                Out::store(dx + (j * C + c) * B + s, scale * lane_sums<T, L>(q + (c * B + s) * L));
          if constexpr (kLookup)
            if (want_x)
              inputs->feature(i, table, cells, round_up(count, kTableLanes), dx + j * C * B);
        }
        if (want_x)
          for (int c = 0; c < C; ++c)
            store_columns<T, kGroup>(dx + c * B, C * B, count, width,
                                     args.dx + ((model * C + c) * n + start) * n_in + group, n_in);
      }
    }
    if (!want_w) return;
    unpack(model, begin, end, moments);
    if (begin == 0) store_bias_gradient<T, L>(args, model);
  }

  // The moments of the cells to dr, dc and db.
  void unpack(std::int64_t model, std::int64_t begin, std::int64_t end, T* moments) const {
    const std::int64_t size = rows * L;
    for (std::int64_t i = begin; i < end; i += kGroup) {
      const Tile part = tile(i, end);
      T* dw = scratch<T, 4>(part.features * part.rows * L);
      for (std::int64_t f = 0; f < part.features; ++f, moments += kCopies * size) {
        for (int k = 1; k < kCopies; ++k)
          for (std::int64_t j = 0; j < size; ++j) moments[j] += moments[k * size + j];
        T* own = dw + f * part.rows * L;
        std::copy_n(moments, L, own);
        moments_to_gradients<T, L>(moments + L, n_cells, own + L);
      }
      store_gradients<T, L>(args, model, part, kCubicDegree, dw);
    }
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
