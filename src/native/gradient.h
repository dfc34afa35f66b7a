// The fused layer backward: the gradients of its inputs and of its weights.
//
// The samples of a block are first sorted by cell (a counting sort, stable), so that the gradient
// of a cell's weights is summed in registers and the cell's weights are loaded once for all of its
// samples.
#pragma once

#include "jet.h"
#include "taylor.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T, int L, int K, int D, int S>
struct Gradient : Jet<T, L, K, D, S> {
  using Base = Jet<T, L, K, D, S>;
  using Base::args, Base::degree, Base::taps, Base::rows, Base::n_cells, Base::padded;
  using Base::C, Base::kOrders, Base::kMaxTaps, Base::kTableLanes, Base::kGroup;
  using typename Base::Out, typename Base::Vec, typename Base::Tab;
  static constexpr std::int64_t B = C == 1 ? 512 : 256;

  T centre[4][4];  // kCubic with derivatives in x

  explicit Gradient(const JetArgs<T>& a) : Base(a) {
    const double scale = a.spline.grid / (a.spline.hi - a.spline.lo);
    for (int t = 0; t < 4; ++t)
      for (int q = 0; q < 4; ++q) centre[t][q] = static_cast<T>(kCubic[t][q] * std::pow(scale, q));
  }

  struct Run {
    const T* g;            // gradients of the block, (C, samples, outputs)
    std::int64_t g_pitch;  // elements from one sample to the next
    std::int64_t g_component;
    const std::int32_t* sample;  // where the s-th sorted point is among the block's samples
    const T *forward, *phi, *x;  // tables of the points
    std::int64_t begin, end;     // the sorted points of one cell
  };

  template <int Chunk>
  void weight_gradient(const Run& run, std::int64_t column, T* residual_row, T* cell) const {
    constexpr std::int64_t pitch = B;
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

  // Adds to sums[c] the lanes of the gradient with respect to component c of the s-th point: one
  // vector of outputs, whose gradients are at g and whose weights are given tap by tap; of cubics,
  // the residual's and then the derivatives at the centre of the cell.
  template <class Weight>
  void add_input_gradient(const Run& run, std::int64_t s, const T* g, const Weight& weight,
                          Vec* sums) const {
    const int n_taps = K ? K + 2 : taps;
    Vec f[kOrders];
    if constexpr (K == 3) {
      const T offset = run.phi[s];
      f[0] = weight(1) + weight(2) * offset + weight(3) * run.phi[B + s] +
             weight(0) * run.phi[2 * B + s];
      if constexpr (kOrders > 1)
        f[1] = weight(2) + weight(3) * offset + weight(0) * run.phi[3 * B + s];
      if constexpr (kOrders > 2) f[2] = weight(3) + weight(0) * run.phi[4 * B + s];
    } else {
      for (int order = 0; order < kOrders; ++order) {
        f[order] = run.phi[(order * n_taps) * B + s] * weight(0);
        for (int t = 1; t < n_taps; ++t)
          f[order] += run.phi[(order * n_taps + t) * B + s] * weight(t);
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
        return Out::load((t ? cell + (t - 1) * padded : residual_row) + column + v * L);
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
      const T* g = run.g + run.sample[s] * run.g_pitch + column;
      Vec sums[C] = {};
      if (!fresh)
        for (int c = 0; c < C; ++c) sums[c] = Out::load(q + (c * B + s) * L);
      for (int v = 0; v < Chunk; ++v)
        add_input_gradient(run, s, g + v * L, [&](int t) { return weight[v][t]; }, sums);
      for (int c = 0; c < C; ++c) Out::store(q + (c * B + s) * L, sums[c]);
    }
  }

  // Stable counting sort of the block's cells: `order` lists the samples cell by cell, `starts` the
  // first place of every cell. Each quarter of the block has its own counters, because a counter
  // that one sample has just changed makes the next one wait.
  void sort_cells(const std::int32_t* cells, std::int64_t count, std::int32_t* starts,
                  std::int32_t* order) const {
    constexpr int kParts = 4;
    const std::int64_t part = count / kParts;
    std::int32_t* counters = scratch<std::int32_t, 6>(kParts * n_cells);
    std::fill(counters, counters + kParts * n_cells, 0);
    for (std::int64_t s = 0; s < part; ++s)
      for (int q = 0; q < kParts; ++q) ++counters[q * n_cells + cells[q * part + s]];
    for (std::int64_t s = kParts * part; s < count; ++s)
      ++counters[(kParts - 1) * n_cells + cells[s]];
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
        order[counters[q * n_cells + cells[q * part + s]]++] =
            static_cast<std::int32_t>(q * part + s);
    for (std::int64_t s = kParts * part; s < count; ++s)
      order[counters[(kParts - 1) * n_cells + cells[s]]++] = static_cast<std::int32_t>(s);
  }

  // A thread's buffers for one block.
  struct Block {
    T *x, *dx;  // columns of a group of features: kGroup x C x B
    T* sorted;  // components of the sorted points: C x B
    T *forward, *phi, *q;
    std::int32_t *cells, *order, *starts;
  };

  Block make_block() const {
    Block k{};
    k.x = scratch<T, 3>(2 * kGroup * C * B + C * B + (C + kOrders) * kMaxTaps * B + C * B * L);
    k.dx = k.x + kGroup * C * B;
    k.sorted = k.dx + kGroup * C * B;
    k.forward = k.sorted + C * B;
    k.phi = k.forward + C * kMaxTaps * B;
    k.q = k.phi + kOrders * kMaxTaps * B;
    k.cells = scratch<std::int32_t, 4>(2 * B + n_cells + 1);
    k.order = k.cells + B;
    k.starts = k.order + B;
    return k;
  }

  // The gradients of one feature on one block, w and dw being its packed weights and their
  // gradient; either may be null. Column sums go to dx[c][sample].
  void sorted_feature(const Block& k, Run& run, const T* x, std::int64_t count, const T* w, T* dw,
                      T* dx) const {
    const std::int64_t whole = round_up(count, kTableLanes), vectors = padded / L;
    for (std::int64_t s = 0; s < whole; s += kTableLanes)
      Base::store_cells(locate<T, kTableLanes>(Tab::load(x + s), this->cell_grid), k.cells + s);
    sort_cells(k.cells, count, k.starts, k.order);
    for (int c = 0; c < C; ++c)
      for (std::int64_t s = 0; s < count; ++s) k.sorted[c * B + s] = x[c * B + k.order[s]];
    this->template tabulate<true>(k.sorted, whole, B, k.forward, k.phi, nullptr);
    run.x = k.sorted;
    for (std::int64_t j = 0; j < n_cells; ++j) {
      run.begin = k.starts[j], run.end = k.starts[j + 1];
      if (run.begin == run.end) continue;
      const std::int64_t cell = (1 + j) * padded;
      if (dw) {
        std::int64_t v = 0;
        for (; v + 2 <= vectors; v += 2) weight_gradient<2>(run, v * L, dw, dw + cell);
        for (; v < vectors; ++v) weight_gradient<1>(run, v * L, dw, dw + cell);
      }
      if (w) {
        std::int64_t v = 0;
        if constexpr (C == 1)
          for (; v + 2 <= vectors; v += 2) input_gradient<2>(run, v * L, w, w + cell, k.q, v == 0);
        for (; v < vectors; ++v) input_gradient<1>(run, v * L, w, w + cell, k.q, v == 0);
      }
    }
    if (!w) return;
    for (int c = 0; c < C; ++c)
      for (std::int64_t s = 0; s < count; s += L) {
        // The block is a multiple of L long; sums past `count` are of stale lanes and are not
        // written.
        const Vec sums = lane_sums<T, L>(k.q + (c * B + s) * L);
        const std::int64_t left = std::min<std::int64_t>(L, count - s);
        for (std::int64_t l = 0; l < left; ++l) dx[c * B + k.order[s + l]] = sums[l];
      }
  }

  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n_in = args.n_in, n_out = args.n_out, n = args.n;
    const bool want_x = args.want_x, want_w = args.want_w;
    const std::int64_t feature = rows * padded, features = end - begin;
    const T *source = args.x.at(model), *gradients = args.g.at(model);
    T* packed = scratch<T, 0>(want_x ? features * feature : 0);
    if (want_x)
      for (std::int64_t i = begin; i < end; ++i)
        this->pack(model, i, packed + (i - begin) * feature);
    T* dw = scratch<T, 1>(want_w ? features * feature : 0);
    if (want_w) std::fill(dw, dw + features * feature, T(0));
    T* copies = padded == n_out ? nullptr : scratch<T, 2>(C * B * padded);
    const Block k = make_block();
    for (std::int64_t start = 0; start < n; start += B) {
      const std::int64_t count = std::min(B, n - start);
      Run run{};
      run.forward = k.forward, run.phi = k.phi, run.sample = k.order;
      run.g = gradients + start * n_out, run.g_pitch = n_out, run.g_component = n * n_out;
      if (copies) {
        for (int c = 0; c < C; ++c)
          for (std::int64_t s = 0; s < count; ++s) {
            const T* row = gradients + (c * n + start + s) * n_out;
            T* out = copies + (c * B + s) * padded;
            for (std::int64_t o = 0; o < padded; ++o) out[o] = o < n_out ? row[o] : T(0);
          }
        run.g = copies, run.g_pitch = padded, run.g_component = B * padded;
      }
      for (std::int64_t group = begin; group < end; group += kGroup) {
        const std::int64_t width = std::min<std::int64_t>(kGroup, end - group);
        for (int c = 0; c < C; ++c)
          load_columns<T, kGroup>(source + (c * n + start) * n_in + group, n_in, count, width,
                                  k.x + c * B, C * B);
        for (std::int64_t j = 0; j < width; ++j) {
          const std::int64_t i = group - begin + j;
          const T* w = want_x ? packed + i * feature : nullptr;
          T* sum = want_w ? dw + i * feature : nullptr;
          const T* x = k.x + j * C * B;
          T* dx = k.dx + j * C * B;
          sorted_feature(k, run, x, count, w, sum, dx);
        }
        if (want_x)
          for (int c = 0; c < C; ++c)
            store_columns<T, kGroup>(k.dx + c * B, C * B, count, width,
                                     args.dx + ((model * C + c) * n + start) * n_in + group, n_in);
      }
    }
    if (!want_w) return;
    for (std::int64_t i = 0; i < features; ++i) {
      const T* sum = dw + i * feature;
      store_gradients(args, model, begin + i, degree, padded, sum, sum + padded);
    }
    if (begin == 0) store_bias_gradient<T, L>(args, model);
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
