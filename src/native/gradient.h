// The fused layer backward: the gradients of its inputs and of its weights.
//
// The samples of a block are first sorted by cell (a counting sort, stable), so that the gradient
// of a cell's weights is summed in registers and the cell's weights are loaded once for all of its
// samples.
#pragma once

#include "ahead.h"
#include "jet.h"
#include "taylor.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T, int L, int K, int D, int S>
struct Gradient : Jet<T, L, K, D, S> {
  using Base = Jet<T, L, K, D, S>;
  using Base::args, Base::degree, Base::taps, Base::rows, Base::n_cells, Base::width;
  using Base::kKeptBytes, Base::kKeptWidth, Base::C, Base::kOrders, Base::kMaxTaps,
      Base::kTableLanes, Base::kGroup;
  using typename Base::Out, typename Base::Vec, typename Base::Tab, typename Base::Points;
  static constexpr std::int64_t B = C == 1 ? 512 : 256;
  // Vectors of outputs whose sums, or weights, stay in registers.
  static constexpr int kSums = K == 3 && kRegisters == 32 ? 4 : 2;
  static constexpr int kWeights = C > 1 ? 1 : kSums;

  T centre[4][4];  // kCubic with derivatives in x
  // Of a row of the tables of points.
  const std::int64_t table_pitch;

  explicit Gradient(const JetArgs<T>& a)
      : Base(a), table_pitch(C > 1 ? B : std::min(B, round_up(a.n, kTableLanes))) {
    const double scale = a.spline.grid / (a.spline.hi - a.spline.lo);
    double power = 1.0;
    for (int q = 0; q < 4; ++q, power *= scale)
      for (int t = 0; t < 4; ++t) centre[t][q] = static_cast<T>(kCubic[t][q] * power);
  }

  struct Run {
    const T* block;        // gradients of the block, see `load_gradients`
    std::int64_t samples;  // of a chunk of outputs, 0 where outputs are not in chunks
    const T* g;            // those of some vectors of outputs, (C, samples, outputs)
    std::int64_t g_pitch;  // elements from one sample to the next
    std::int64_t g_component;
    std::int64_t pitch;           // of the rows of weights and of their gradients
    const std::uint16_t* sample;  // where the s-th sorted point is among the block's samples
    const T *forward, *phi, *x;   // tables of the points
    std::int64_t begin, end;      // the sorted points of one cell

    // Turns to `vectors` vectors of outputs from `column` on, a chunk if there are chunks.
    void look_at(std::int64_t column, int vectors) {
      g = block + column * std::max<std::int64_t>(samples, 1);
      if (samples) g_pitch = vectors * L;
    }
  };

  // A constant where many rows are in use: their addresses would not fit the registers.
  std::int64_t row_pitch() const { return C > 1 ? B : table_pitch; }

  // Adds the points of one cell to the gradients of its weights, sums(t) being those of tap t.
  template <int Chunk, class Sums>
  [[gnu::always_inline]] void weight_gradient(const Run& run, const Sums& sums) const {
    const int n_taps = K ? K + 2 : taps;
    const std::int64_t pitch = row_pitch();
    for (std::int64_t s = run.begin; s < run.end; ++s) {
      const T* g = run.g + run.sample[s] * run.g_pitch;
#pragma GCC unroll 5
      for (int c = 0; c < C; ++c) {
        Vec gradient[Chunk];
        for (int v = 0; v < Chunk; ++v) gradient[v] = Out::load(g + c * run.g_component + v * L);
#pragma GCC unroll 7
        for (int t = 0; t < n_taps; ++t) {
          const T scale = run.forward[(c * n_taps + t) * pitch + s];
          for (int v = 0; v < Chunk; ++v) sums(t)[v] += scale * gradient[v];
        }
      }
    }
  }

  // Adds to sums[c] the lanes of the gradient with respect to component c of the s-th point: one
  // vector of outputs, whose gradients are at g and whose weights are given tap by tap; of cubics,
  // the residual's and then the derivatives at the centre of the cell.
  template <class Weight>
  void add_input_gradient(const Run& run, std::int64_t s, const T* g, const Weight& weight,
                          Vec* sums) const {
    const int n_taps = K ? K + 2 : taps;
    const std::int64_t pitch = row_pitch();
    Vec f[kOrders];
    if constexpr (K == 3) {
      const T offset = run.phi[s];
      f[0] = weight(1) + weight(2) * offset + weight(3) * run.phi[pitch + s] +
             weight(0) * run.phi[2 * pitch + s];
      if constexpr (kOrders > 1)
        f[1] = weight(2) + weight(3) * offset + weight(0) * run.phi[3 * pitch + s];
      if constexpr (kOrders > 2) f[2] = weight(3) + weight(0) * run.phi[4 * pitch + s];
    } else {
      for (int order = 0; order < kOrders; ++order) {
        f[order] = run.phi[(order * n_taps) * pitch + s] * weight(0);
        for (int t = 1; t < n_taps; ++t)
          f[order] += run.phi[(order * n_taps + t) * pitch + s] * weight(t);
      }
    }
    Vec gradient[C];
    for (int c = 0; c < C; ++c) gradient[c] = Out::load(g + c * run.g_component);
    sums[0] += gradient[0] * f[0];
    for (int d = 0; d < D; ++d) {
      const T xd = run.x[(1 + d) * B + s];
      sums[0] += xd * (gradient[1 + d] * f[kOrders > 1 ? 1 : 0]);
      sums[1 + d] += gradient[1 + d] * f[0];
    }
    for (int d = 0; d < S; ++d) {
      const T xd = run.x[(1 + d) * B + s], xdd = run.x[(1 + D + d) * B + s];
      const Vec second = gradient[1 + D + d];
      const Vec bent = second * f[kOrders > 1 ? 1 : 0];
      sums[0] += (xd * xd) * (second * f[kOrders > 2 ? 2 : 0]) + xdd * bent;
      sums[1 + d] += (T(2) * xd) * bent;
      sums[1 + D + d] += second * f[0];
    }
  }

  // Adds to q[c][s], or sets it where `fresh`, for the sorted points of one cell.
  template <int Chunk>
  void input_gradient(const Run& run, std::int64_t column, const T* residual_row, const T* cell,
                      T* q, bool fresh) const {
    const int n_taps = K ? K + 2 : taps;
    Vec weight[Chunk][kMaxTaps];
    for (int v = 0; v < Chunk; ++v) {
      const auto tap = [&](int t) {
        return Out::load((t ? cell + (t - 1) * run.pitch : residual_row) + column + v * L);
      };
      weight[v][0] = tap(0);
      for (int t = 1; t < n_taps; ++t) {
        if constexpr (K == 3) {
          if (t == n_taps - 1) break;  // three derivatives of four functions
          weight[v][t] = centre[0][t] * tap(1);
          for (int j = 1; j < 4; ++j) weight[v][t] += centre[j][t] * tap(1 + j);
        } else {
          weight[v][t] = tap(t);
        }
      }
    }
    for (std::int64_t s = run.begin; s < run.end; ++s) {
      const T* g = run.g + run.sample[s] * run.g_pitch;
      Vec sums[C] = {};
      if (!fresh)
        for (int c = 0; c < C; ++c) sums[c] = Out::load(q + (c * B + s) * L);
      for (int v = 0; v < Chunk; ++v)
        add_input_gradient(run, s, g + v * L, [&](int t) { return weight[v][t]; }, sums);
      for (int c = 0; c < C; ++c) Out::store(q + (c * B + s) * L, sums[c]);
    }
  }

  // Numbers and places of a feature's tables.
  std::int64_t table_size() const { return (C + (C + kOrders) * kMaxTaps) * table_pitch; }
  std::int64_t place_count() const { return CellOrder::room(table_pitch) / 2 + n_cells + 1; }

  Points points(T* tables, std::int32_t* places, std::int64_t slot) const {
    T *sorted = tables + slot * table_size(), *forward = sorted + C * table_pitch;
    std::int32_t* starts = places + slot * place_count();
    return {sorted,
            forward,
            forward + C * kMaxTaps * table_pitch,
            {reinterpret_cast<std::uint16_t*>(starts + n_cells + 1), starts}};
  }

  void at(const Points& p, std::int64_t cell, Run& run) const {
    run.forward = p.forward, run.phi = p.phi, run.x = p.sorted, run.sample = p.places.order;
    run.begin = p.places.starts[cell], run.end = p.places.starts[cell + 1];
  }

  // Adds to the gradient of one feature's packed weights, for some columns of a tile; with `fresh`,
  // which is for the first block of samples, sets it. A function of its own: in a larger one the
  // loop's pointers would not stay in registers.
  template <int Chunk>
  [[gnu::noinline]] void add_weight_gradient(const Points& p, Run run, T* dw, bool fresh) const {
    if constexpr (K == 3) return add_cubic_gradient<Chunk>(p, run, dw, fresh);
    for (std::int64_t j = 0; j < n_cells; ++j) {
      at(p, j, run);
      if (run.begin == run.end) continue;
      Vec sums[kMaxTaps][Chunk];
      const auto row = [&](int t) { return dw + (t ? j + t : 0) * run.pitch; };
      for (int t = 0; t < taps; ++t)
        for (int v = 0; v < Chunk; ++v) sums[t][v] = Out::load(row(t) + v * L);
      weight_gradient<Chunk>(run, [&](int t) { return sums[t]; });
      for (int t = 0; t < taps; ++t)
        for (int v = 0; v < Chunk; ++v) Out::store(row(t) + v * L, sums[t][v]);
    }
  }

  // From one cell to the next a single row of sums leaves the registers and a single one enters.
  // Each register has one row in four, so that none is copied. Rows of padding are left out.
  template <int Chunk>
  [[gnu::always_inline]] void add_cubic_gradient(const Points& p, Run& run, T* dw,
                                                 bool fresh) const {
    const auto load = [&](const T* row, Vec* to) {
      for (int v = 0; v < Chunk; ++v) to[v] = fresh ? Vec{} : Out::load(row + v * L);
    };
    const auto store = [&](T* row, const Vec* from) {
      for (int v = 0; v < Chunk; ++v) Out::store(row + v * L, from[v]);
    };
    Vec residual[Chunk], sums[4][Chunk];
    load(dw, residual);
    T* own = dw + (1 + K) * run.pitch;
    for (int t = 0; t < 3; ++t)
      for (int v = 0; v < Chunk; ++v) sums[t][v] = Vec{};
    load(own, sums[3]);
    const std::int64_t n_own = args.spline.grid + K;
    // Cell j has own functions j - 3 .. j.
    const auto cell = [&](std::int64_t j, auto place) {
      constexpr int first = place();
      at(p, j, run);
      weight_gradient<Chunk>(run, [&](int t) { return t ? sums[(first + t - 1) % 4] : residual; });
      if (j >= 3 && j - 3 < n_own) store(own + (j - 3) * run.pitch, sums[first]);
      if (j + 1 < n_own) load(own + (j + 1) * run.pitch, sums[first]);
    };
    for (std::int64_t j = 0; j < n_cells; j += 4) {
      cell(j, std::integral_constant<int, 0>{});
      if (j + 1 < n_cells) cell(j + 1, std::integral_constant<int, 1>{});
      if (j + 2 < n_cells) cell(j + 2, std::integral_constant<int, 2>{});
      if (j + 3 < n_cells) cell(j + 3, std::integral_constant<int, 3>{});
    }
    store(dw, residual);
  }

  // The gradient in the inputs of one feature on one block and one tile, w being its packed
  // weights. Column sums are stored in dx[c][sample] or, with `add`, added to them.
  void add_input_gradient(const Points& p, Run& run, std::int64_t count, const T* w, T* q, T* dx,
                          bool add) const {
    for (std::int64_t j = 0; j < n_cells; ++j) {
      at(p, j, run);
      if (run.begin == run.end) continue;
      Base::template for_chunks<kWeights>(run.pitch, [&](std::int64_t o, auto size) {
        run.look_at(o, size());
        input_gradient<size()>(run, o, w, w + (1 + j) * run.pitch, q, o == 0);
      });
    }
    for (int c = 0; c < C; ++c)
      for (std::int64_t s = 0; s < count; s += L) {
        // The block is a multiple of L long; sums past `count` are of stale lanes and are not
        // written.
        const Vec sums = lane_sums<T, L>(q + (c * B + s) * L);
        const std::int64_t left = std::min<std::int64_t>(L, count - s);
        for (std::int64_t l = 0; l < left; ++l) {
          T& out = dx[c * B + p.places.order[s + l]];
          out = add ? out + sums[l] : sums[l];
        }
      }
  }

  // Tiles of outputs are the outer loop: their rows of weights advance side by side, page by page.
  // The tables of all points are kept for all of them where they are small enough. Tiles are
  // narrower then, so that the next one fits the second-level cache too; but not for the gradient
  // of the inputs, which is summed tile by tile.
  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    if (args.n_out == 0 && args.want_x && begin == 0)
      std::fill_n(args.dx + model * C * args.n * args.n_in, C * args.n * args.n_in, T(0));
    const std::int64_t bytes =
        args.n_in * (table_size() + place_count()) * static_cast<std::int64_t>(sizeof(T));
    const bool keep = args.n <= B && args.n_out > width && bytes <= kKeptBytes;
    const std::int64_t most = keep && !args.want_x ? std::min(width, kKeptWidth) : width;
    const std::int64_t slots = keep ? end - begin : kGroup;
    T* tables = scratch<T, 4>(slots * table_size());
    std::int32_t* places = scratch<std::int32_t, 4>(slots * place_count());
    const auto part = [&](std::int64_t i, std::int64_t o) {
      return this->tile(i, end, o, std::min(o + most, args.n_out));
    };
    if (keep)
      for (std::int64_t i = begin; i < end; i += kGroup)
        prepare_group(model, 0, args.n, part(i, 0), tables + (i - begin) * table_size(),
                      places + (i - begin) * place_count());
    for (std::int64_t o = 0; o < args.n_out; o += most)
      for (std::int64_t i = begin; i < end; i += kGroup) {
        const Tile next = i + kGroup < end        ? part(i + kGroup, o)
                          : o + most < args.n_out ? part(begin, o + most)
                                                  : Tile{};
        const std::int64_t slot = keep ? i - begin : 0;
        group(model, {begin, end}, part(i, o), next, keep, tables + slot * table_size(),
              places + slot * place_count());
      }
    if (args.want_w && begin == 0) store_bias_gradient<T, L>(args, model);
  }

  // Sorts and tabulates the points of a tile's features in a block of samples.
  void prepare_group(std::int64_t model, std::int64_t start, std::int64_t count, const Tile& tile,
                     T* tables, std::int32_t* places) const {
    T* x = scratch<T, 3>(kGroup * C * B);
    std::int32_t* cells = scratch<std::int32_t, 5>(B);
    turn(args.x.at(model), start, count, tile, x);
    for (std::int64_t f = 0; f < tile.features; ++f)
      this->template prepare<true>(x + f * C * B, count, row_pitch(), cells,
                                   points(tables, places, f));
  }

  // The gradients of one tile of the features of a task, whose points may be `prepared`.
  void group(std::int64_t model, Range task, const Tile& tile, const Tile& next, bool prepared,
             T* tables, std::int32_t* places) const {
    const std::int64_t n = args.n, features = tile.features, size = rows * tile.pitch;
    const bool want_x = args.want_x, want_w = args.want_w;
    T* packed = scratch<T, 0>(want_x ? features * size : 0);
    T* dw = scratch<T, 1>(want_w ? features * size : 0);
    T* dx = scratch<T, 5>(kGroup * C * B + C * B * L);
    T* q = dx + kGroup * C * B;
    if (want_x) load_weights<T, L>(args, model, tile, degree, packed);
    if (want_w && (K != 3 || n == 0)) std::fill(dw, dw + features * size, T(0));
    for (std::int64_t start = 0; start < n; start += B) {
      const std::int64_t count = std::min(B, n - start);
      Run run{};
      run.pitch = tile.pitch;
      load_gradients(model, start, count, tile, tile.feature == task.begin || n > B, run);
      if (!prepared) prepare_group(model, start, count, tile, tables, places);
      if (want_x && tile.output > 0)
        turn(args.dx + model * C * n * args.n_in, start, count, tile, dx);
      if (want_w) {
        const std::int64_t steps = features * ((tile.pitch + kSums * L - 1) / (kSums * L));
        Ahead<T> ahead(args, model, next, steps, true);
        Base::template for_chunks<kSums>(tile.pitch, [&](std::int64_t o, auto chunk) {
          run.look_at(o, chunk());
          for (std::int64_t f = 0; f < features; ++f) {
            if (start == 0) ahead.step();
            add_weight_gradient<chunk()>(points(tables, places, f), run, dw + f * size + o,
                                         start == 0);
          }
        });
      }
      if (!want_x) continue;
      for (std::int64_t f = 0; f < features; ++f)
        add_input_gradient(points(tables, places, f), run, count, packed + f * size, q,
                           dx + f * C * B, tile.output > 0);
      for (int c = 0; c < C; ++c)
        store_columns<T, kGroup>(dx + c * B, C * B, count, features,
                                 args.dx + ((model * C + c) * n + start) * args.n_in + tile.feature,
                                 args.n_in);
    }
    if (!want_w) return;
    store_gradients<T, L>(args, model, tile, degree, dw);
  }

  // The columns of a tile's features in a block of samples of an array (C, n, n_in).
  void turn(const T* source, std::int64_t start, std::int64_t count, const Tile& tile,
            T* columns) const {
    for (int c = 0; c < C; ++c)
      load_columns<T, kGroup>(source + (c * args.n + start) * args.n_in + tile.feature, args.n_in,
                              count, tile.features, columns + c * B, C * B);
  }

  // The gradients of a tile's outputs. Without derivatives they are copied chunk by chunk of
  // outputs, (samples, outputs of the chunk): one chunk stays in the first-level cache while all
  // features meet it. With derivatives they are copied where they do not fill whole vectors.
  // Without `fresh`, the copies are those of the last call.
  void load_gradients(std::int64_t model, std::int64_t start, std::int64_t count, const Tile& tile,
                      bool fresh, Run& run) const {
    const std::int64_t n = args.n, n_out = args.n_out, pitch = tile.pitch;
    const T* g = args.g.at(model) + start * n_out + tile.output;
    run.block = g, run.g_pitch = n_out, run.g_component = n * n_out;
    if (tile.outputs == pitch && (C > 1 || n_out <= kSums * L)) return;
    T* copies = scratch<T, 2>(C * B * pitch);
    run.block = copies, run.g_pitch = pitch, run.g_component = B * pitch;
    run.samples = C == 1 ? B : 0;
    if (!fresh) return;
    const auto copy = [&](const T* from, std::int64_t filled, T* to, std::int64_t whole) {
      std::fill(std::copy_n(from, filled, to), to + whole, T(0));
    };
    if constexpr (C == 1) {
      Base::template for_chunks<kSums>(pitch, [&](std::int64_t o, auto size) {
        const std::int64_t filled = std::min<std::int64_t>(size() * L, tile.outputs - o);
        for (std::int64_t s = 0; s < count; ++s)
          copy(g + s * n_out + o, filled, copies + o * B + s * (size() * L), size() * L);
      });
    } else {
      for (int c = 0; c < C; ++c)
        for (std::int64_t s = 0; s < count; ++s)
          copy(g + (c * n + s) * n_out, tile.outputs, copies + (c * B + s) * pitch, pitch);
    }
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
