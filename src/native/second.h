// What the second and third derivatives of a layer with few outputs consist of:
//
//   Q = sum h[n,o] u[n,i] phi'(x[n,i]) + g[n,o] u[n,i] v[n,i] phi''(x[n,i])
//
// with all its gradients, on cubic splines; lanes run over outputs, as in slim.h. Either of h and
// v may be missing, and its term with it.
#pragma once

#include <algorithm>

#include "slim.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T, int L>
struct Second : Slim<T, L, 1, 1> {
  using Base = Slim<T, L, 1, 1>;
  using Base::args, Base::cell_grid, Base::rows, Base::kGroup, Base::kTableLanes, Base::kTable;
  using typename Base::Out, typename Base::Vec;
  static constexpr int C = Base::C, kCopies = Base::kCopies;
  static constexpr std::int64_t B = Base::kBackwardBlock;
  using Point = typename Base::template Point<B>;

  const SecondArgs<T>& p;

  explicit Second(const SecondArgs<T>& a) : Base(a.layer), p(a) {}

  // A thread's tables of one block: the points of a group of features, and of one feature.
  struct Block {
    T *x, *table;
    std::int32_t* cells;
  };

  Block make_block() const {
    T* x = scratch<T, 3>(kGroup * C * B + kTable * B);
    std::fill(x, x + kGroup * C * B, T(0));
    return {x, x + kGroup * C * B, scratch<std::int32_t, 4>(B)};
  }

  // Components x, u and v of a group's features; v is 0 where it is missing.
  void load(std::int64_t model, std::int64_t start, std::int64_t count, std::int64_t feature,
            std::int64_t features, const Block& k) const {
    const Operand<T>* sources[C] = {&args.x, &p.u, &p.v};
    for (int c = 0; c < C; ++c)
      if (sources[c]->data)
        load_columns<T, kGroup>(sources[c]->at(model) + start * args.n_in + feature, args.n_in,
                                count, features, k.x + c * B, C * B);
  }

  // Rows of outputs in whole vectors, zeros where they are missing.
  void load_rows(const Operand<T>& source, std::int64_t model, std::int64_t start,
                 std::int64_t count, T* out) const {
    const std::int64_t n_out = args.n_out;
    std::fill_n(out, count * L, T(0));
    if (source.data)
      for (std::int64_t s = 0; s < count; ++s)
        std::copy_n(source.at(model) + (start + s) * n_out, n_out, out + s * L);
  }

  void store_rows(const T* in, std::int64_t model, std::int64_t start, std::int64_t count,
                  T* target) const {
    if (target)
      for (std::int64_t s = 0; s < count; ++s)
        std::copy_n(in + s * L, args.n_out, target + (model * args.n + start + s) * args.n_out);
  }

  // The gradients in h and in g, at some samples.
  void outputs(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    p.v.data ? sum_outputs<true>(model, begin, end) : sum_outputs<false>(model, begin, end);
  }

  // Bent: whether there is a v.
  template <bool Bent>
  void sum_outputs(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n_in = args.n_in, size = rows * L;
    T* packed = scratch<T, 0>(n_in * size);
    this->template pack<false>(model, 0, n_in, packed);
    const Block k = make_block();
    T *first = scratch<T, 1>(2 * B * L), *second = first + B * L;
    for (std::int64_t start = begin; start < end; start += B) {
      const std::int64_t count = std::min(B, end - start);
      std::fill_n(first, 2 * B * L, T(0));
      for (std::int64_t i = 0; i < n_in; ++i) {
        if (i % kGroup == 0)
          load(model, start, count, i, std::min<std::int64_t>(kGroup, n_in - i), k);
        this->template tabulate<Bent ? 3 : 2, B>(k.x + i % kGroup * C * B,
                                                 round_up(count, kTableLanes), k.table, k.cells);
        const T* w = packed + i * size;
        const Vec r = Out::load(w);
        for (std::int64_t s = 0; s < count; ++s) {
          const Point at{k.table + s};
          Vec d[kRows];
          load_cell(w, k.cells[s], d);
          T *y = first + s * L, *z = second + s * L;
          Out::store(y, Out::load(y) + polynomial<1>(d, r, at) * at.along(0));
          if constexpr (Bent)
            Out::store(z, Out::load(z) + polynomial<2>(d, r, at) * (at.along(0) * at.bent(0)));
        }
      }
      store_rows(first, model, start, count, p.dh);
      store_rows(second, model, start, count, p.dg);
    }
  }

  static void load_cell(const T* w, std::int32_t cell, Vec* d) {
    const T* row = w + (1 + kRows * static_cast<std::int64_t>(cell)) * L;
    for (int q = 0; q < kRows; ++q) d[q] = Out::load(row + q * L);
  }

  // The gradients in x, u and the weights, of some features.
  void inputs(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = args.n, n_in = args.n_in, size = rows * L, sums = kCopies * size;
    T* packed = scratch<T, 0>((end - begin) * size);
    this->template pack<false>(model, begin, end, packed);
    T* moments = scratch<T, 1>((end - begin) * sums);
    std::fill_n(moments, (end - begin) * sums, T(0));
    T* h = scratch<T, 2>(4 * B * L + 2 * kGroup * B);
    T *g = h + B * L, *lanes = g + B * L, *columns = lanes + 2 * B * L;
    T* const targets[2] = {p.dx, p.du};
    const Block k = make_block();
    for (std::int64_t start = 0; start < n; start += B) {
      const std::int64_t count = std::min(B, n - start);
      load_rows(p.h, model, start, count, h);
      load_rows(p.v.data ? p.g : Operand<T>{}, model, start, count, g);
      for (std::int64_t group = begin; group < end; group += kGroup) {
        const std::int64_t width = std::min<std::int64_t>(kGroup, end - group);
        load(model, start, count, group, width, k);
        for (std::int64_t j = 0; j < width; ++j) {
          this->template tabulate<4, B>(k.x + j * C * B, round_up(count, kTableLanes), k.table,
                                        k.cells);
          const std::int64_t i = group - begin + j;
          const auto visit =
              p.v.data
                  ? (args.want_w ? &Second::feature<true, true> : &Second::feature<true, false>)
                  : (args.want_w ? &Second::feature<false, true> : &Second::feature<false, false>);
          (this->*visit)(k, count, packed + i * size, h, g, moments + i * sums, lanes);
          for (int c = 0; c < 2; ++c)
            for (std::int64_t s = 0; targets[c] && s < count; s += L)
              Out::store(columns + (c * kGroup + j) * B + s,
                         cell_grid.inverse * lane_sums<T, L>(lanes + (c * B + s) * L));
        }
        for (int c = 0; c < 2; ++c)
          if (targets[c])
            store_columns<T, kGroup>(columns + c * kGroup * B, B, count, width,
                                     targets[c] + (model * n + start) * n_in + group, n_in);
      }
    }
    if (args.want_w) this->unpack(model, begin, end, moments);
  }

  template <bool Bent, bool WantW>
  void feature(const Block& k, std::int64_t count, const T* w, const T* h, const T* g, T* sums,
               T* lanes) const {
    const std::int64_t copy = rows * L;
    const Vec r = Out::load(w);
    Vec residual[kCopies] = {};
    if constexpr (WantW)
      for (int c = 0; c < kCopies; ++c) residual[c] = Out::load(sums + c * copy);
    const auto add = [&](std::int64_t s, int c) {
      const Point at{k.table + s};
      Vec d[kRows];
      load_cell(w, k.cells[s], d);
      const Vec phi2 = polynomial<2>(d, r, at), hs = Out::load(h + s * L);
      const Vec slope = hs * at.along(0);
      Vec bend{}, dx = slope * phi2, du = hs * polynomial<1>(d, r, at);
      if constexpr (Bent) {
        const Vec gs = Out::load(g + s * L);
        bend = gs * (at.along(0) * at.bent(0));
        dx += bend * polynomial<3>(d, r, at);
        du += at.bent(0) * (gs * phi2);
      }
      Out::store(lanes + s * L, dx);
      Out::store(lanes + (B + s) * L, du);
      if constexpr (WantW) {
        T* moment = sums + c * copy + (1 + kRows * static_cast<std::int64_t>(k.cells[s])) * L;
        Vec first = Out::load(moment + L) + slope;
        Vec second = Out::load(moment + 2 * L) + slope * at.v();
        Vec third = Out::load(moment + 3 * L) + slope * at.half();
        residual[c] += slope * at.residual(1);
        if constexpr (Bent) {
          second += bend;
          third += bend * at.v();
          residual[c] += bend * at.residual(2);
        }
        Out::store(moment + L, first);
        Out::store(moment + 2 * L, second);
        Out::store(moment + 3 * L, third);
      }
    };
    std::int64_t s = 0;
    for (; s + kCopies <= count; s += kCopies)
#pragma GCC unroll 4
      for (int c = 0; c < kCopies; ++c) add(s + c, c);
    for (int c = 0; s < count; ++s, ++c) add(s, c);
    if constexpr (WantW)
      for (int c = 0; c < kCopies; ++c) Out::store(sums + c * copy, residual[c]);
  }
};

template <class T, class Work>
void with_second(const SecondArgs<T>& p, const Work& work) {
  constexpr int L = kLanes<T>, kHalf = std::max(L / 2, 2);
  if (L > 4 && p.layer.n_out <= L / 2) return work(Second<T, kHalf>(p));
  work(Second<T, L>(p));
}

template <class T>
void second_outputs(const SecondArgs<T>& p, std::int64_t model, std::int64_t begin,
                    std::int64_t end) {
  with_second(p, [&](const auto& second) { second.outputs(model, begin, end); });
}

template <class T>
void second_inputs(const SecondArgs<T>& p, std::int64_t model, std::int64_t begin,
                   std::int64_t end) {
  with_second(p, [&](const auto& second) { second.inputs(model, begin, end); });
}

}  // namespace KANDLE_ISA
}  // namespace kandle
