// The fused layer forward: its value and derivative components.
//
// Weights are packed tile by tile, some features and outputs at a time, and a tile meets all
// samples of a strip before the next one is packed: few rows and wide layers then read their
// weights once. Within a tile the input feature is the outer loop over a block of samples: the
// block's outputs and the feature's weights stay in the first-level cache. Inputs are turned a few
// features at a time, so that a feature's samples are contiguous.
#pragma once

#include <algorithm>

#include "basis.h"
#include "scratch.h"
#include "sort.h"
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
  static constexpr int kGroup = kTileFeatures<T>;  // features that are turned together
  static constexpr std::int64_t kForwardBlock = C == 1 ? 128 : 32;
  // Bytes of the tables of all points up to which they are kept for all tiles of outputs, and the
  // outputs of a tile then: the next tile fits the second-level cache too.
  static constexpr std::int64_t kKeptBytes = std::int64_t{1} << 23, kKeptWidth = 64;
  // Samples that share one packing of the weights, and bytes of packed weights.
  static constexpr std::int64_t kStrip = 2048 / C, kTileBytes = std::int64_t{1} << 19;
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
  const std::int64_t width;  // outputs of a tile, whole vectors of them
  std::array<TapTable<T>, kOrders + 1> tables;

  explicit Jet(const JetArgs<T>& a)
      : args(a),
        cell_grid(a.spline),
        degree(K ? K : a.spline.degree),
        taps(degree + 2),
        rows(2 + a.spline.grid + 3 * degree),
        n_cells(cell_count(a.spline)),
        width(tile_width(a.n_out, rows)),
        tables(make_tables(a.spline, std::make_index_sequence<kOrders + 1>{})) {}

  template <std::size_t... I>
  static std::array<TapTable<T>, kOrders + 1> make_tables(const Spline& s,
                                                          std::index_sequence<I...>) {
    return {TapTable<T>(s, static_cast<int>(I))...};
  }

  static std::int64_t tile_width(std::int64_t n_out, std::int64_t rows) {
    constexpr std::int64_t kLeast = 64, kMost = 256;
    const std::int64_t fitting =
        kTileBytes / (kGroup * rows * static_cast<std::int64_t>(sizeof(T))) / kLeast * kLeast;
    return std::min(std::clamp(fitting, kLeast, kMost),
                    round_up(std::max<std::int64_t>(n_out, 1), L));
  }

  // The tile of up to kGroup features from `feature` on and `width` outputs from `output` on.
  Tile tile(std::int64_t feature, std::int64_t last_feature, std::int64_t output,
            std::int64_t last_output) const {
    const std::int64_t outputs = std::min(width, last_output - output);
    return {feature, std::min<std::int64_t>(kGroup, last_feature - feature),
            output,  outputs,
            rows,    round_up(outputs, L)};
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

  // The points of one feature, sorted by cell: components, the tables of `tabulate`, places.
  struct Points {
    T *sorted, *forward, *phi;
    CellOrder places;
  };

  // Sorts the points of a block, x[c][s], and tabulates them; `pitch` is that of x and all tables.
  template <bool Backward>
  void prepare(const T* x, std::int64_t count, std::int64_t pitch, std::int32_t* cells,
               const Points& p) const {
    const std::int64_t whole = round_up(count, kTableLanes);
    for (std::int64_t s = 0; s < whole; s += kTableLanes)
      store_cells(locate<T, kTableLanes>(Tab::load(x + s), cell_grid), cells + s);
    sort_cells(cells, count, n_cells, p.places);
    for (int c = 0; c < C; ++c) {
      for (std::int64_t s = 0; s < count; ++s)
        p.sorted[c * pitch + s] = x[c * pitch + p.places.order[s]];
      std::fill(p.sorted + c * pitch + count, p.sorted + c * pitch + whole, T(0));
    }
    tabulate<Backward>(p.sorted, whole, pitch, p.forward, p.phi, nullptr);
  }

  // Calls visit(column, vectors) for pieces of a row of `pitch` numbers, `vectors` being a
  // compile-time constant.
  template <int Most, class Visit>
  [[gnu::always_inline]] static void for_chunks(std::int64_t pitch, const Visit& visit) {
    std::int64_t o = 0;
    const auto chunks = [&](auto size) {
      for (; o + size() * L <= pitch; o += size() * L) visit(o, size);
    };
    chunks(std::integral_constant<int, Most>{});
    if constexpr (Most > 2) chunks(std::integral_constant<int, 2>{});
    if constexpr (Most > 1) chunks(std::integral_constant<int, 1>{});
  }

  // Adds one feature to Chunk vectors of outputs; `pitch` is that of the rows of weights.
  template <int Chunk>
  void accumulate(const T* w, std::int64_t pitch, const T* table, const std::int32_t* cells,
                  std::int64_t count, T* y, std::int64_t y_pitch, std::int64_t component) const {
    const int n_taps = K ? K + 2 : taps;
    for (std::int64_t s = 0; s < count; ++s) {
      const T* cell = w + (1 + cells[s]) * pitch;
      T* out = y + s * y_pitch;
      Vec acc[C][Chunk];
      for (int c = 0; c < C; ++c)
        for (int v = 0; v < Chunk; ++v) acc[c][v] = Out::load(out + c * component + v * L);
#pragma GCC unroll 7
      for (int t = 0; t < n_taps; ++t) {
        const T* row = t ? cell + (t - 1) * pitch : w;
        Vec weight[Chunk];
        for (int v = 0; v < Chunk; ++v) weight[v] = Out::load(row + v * L);
        for (int c = 0; c < C; ++c) {
          const T scale = table[(c * n_taps + t) * kForwardBlock + s];
          for (int v = 0; v < Chunk; ++v) acc[c][v] += scale * weight[v];
        }
      }
      for (int c = 0; c < C; ++c)
        for (int v = 0; v < Chunk; ++v) Out::store(out + c * component + v * L, acc[c][v]);
    }
  }

  void forward(std::int64_t model, Range samples, Range outputs) const {
    for (std::int64_t start = samples.begin; start < samples.end; start += kStrip) {
      const Range part{start, std::min(start + kStrip, samples.end)};
      for (std::int64_t o = outputs.begin; o < outputs.end; o += width)
        strip(model, part, o, outputs.end);
    }
  }

  // The outputs of one tile, from all features, at some samples.
  void strip(std::int64_t model, Range samples, std::int64_t output,
             std::int64_t last_output) const {
    constexpr std::int64_t B = kForwardBlock;
    const std::int64_t n_in = args.n_in, n_out = args.n_out, n = args.n;
    const std::int64_t pitch = tile(0, n_in, output, last_output).pitch;
    const std::int64_t n_tile = std::min(width, last_output - output);
    const std::int64_t count = samples.end - samples.begin;
    // Whole vectors of outputs are summed where they belong, others in rows of whole vectors.
    const bool in_place = pitch == n_tile;
    const std::int64_t y_pitch = in_place ? n_out : pitch;
    const std::int64_t component = in_place ? n * n_out : count * pitch;
    T* target = args.y + (model * C * n + samples.begin) * n_out + output;
    T* y = in_place ? target : scratch<T, 1>(C * count * pitch);
    T* packed = scratch<T, 0>(std::min<std::int64_t>(kGroup, n_in) * rows * pitch);
    alignas(64) T x[kGroup * C * B] = {}, table[C * kMaxTaps * B];
    alignas(64) std::int32_t cells[B];
    const T *source = args.x.at(model) + samples.begin * n_in, *bias = args.bias.at(model) + output;
    for (std::int64_t s = 0; s < count; ++s) std::copy_n(bias, n_tile, y + s * y_pitch);
    for (int c = 1; c < C; ++c)
      for (std::int64_t s = 0; s < count; ++s)
        std::fill_n(y + c * component + s * y_pitch, n_tile, T(0));
    for (std::int64_t i = 0; i < n_in; i += kGroup) {
      const Tile part = tile(i, n_in, output, last_output);
      load_weights<T, L>(args, model, part, degree, packed);
      for (std::int64_t start = 0; start < count; start += B) {
        const std::int64_t points = std::min(B, count - start);
        for (int c = 0; c < C; ++c)
          load_columns<T, kGroup>(source + (c * n + start) * n_in + i, n_in, points, part.features,
                                  x + c * B, C * B);
        for (std::int64_t f = 0; f < part.features; ++f) {
          tabulate<false>(x + f * C * B, round_up(points, kTableLanes), B, table, nullptr, cells);
          add_feature(packed + f * rows * pitch, pitch, table, cells, points, y + start * y_pitch,
                      y_pitch, component);
        }
      }
    }
    if (!in_place)
      for (int c = 0; c < C; ++c)
        for (std::int64_t s = 0; s < count; ++s)
          std::copy_n(y + c * component + s * pitch, n_tile, target + (c * n + s) * n_out);
  }

  void add_feature(const T* w, std::int64_t pitch, const T* table, const std::int32_t* cells,
                   std::int64_t count, T* y, std::int64_t y_pitch, std::int64_t component) const {
    for_chunks<C == 1 ? 4 : 2>(pitch, [&](std::int64_t o, auto size) {
      accumulate<size()>(w + o, pitch, table, cells, count, y + o, y_pitch, component);
    });
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
