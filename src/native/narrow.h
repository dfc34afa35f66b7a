// The layer with one output and cubic splines: lanes run over samples, because there are no outputs
// to run over.
//
// The Taylor coefficients of a cell (taylor.h) are one short row of four numbers. The rows of a
// vector of points are loaded and transposed, so that D_q of all points is one vector; gradients go
// the other way, into one short row of moments per cell.
#pragma once

#include <algorithm>

#include "lookup.h"
#include "quarters.h"
#include "scratch.h"
#include "taylor.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

// Turns four vectors so that the four numbers in[0 .. 3] of one lane follow each other: those of
// lane l begin at out[turned_place(l)].
template <class T, int L>
KANDLE_INLINE void turn_rows(typename Simd<T, L>::Vec* in, T* out) {
  if constexpr (L >= 4) {
    detail::turn_quarters<T, L>(in);
    for (int j = 0; j < 4; ++j) Simd<T, L>::store(out + j * L, in[j]);
  } else {
    for (int l = 0; l < L; ++l)
      for (int t = 0; t < 4; ++t) out[4 * l + t] = in[t][l];
  }
}

template <int L>
constexpr int turned_place(int lane) {
  return L >= 4 ? lane % 4 * L + lane / 4 * 4 : 4 * lane;
}

// Adds the turned rows of `count` lanes, a multiple of L, to sums[cells[l]]. Lane l has the copy of
// the sums numbered l mod `Copies`, so that points of one cell which follow each other do not wait
// for each other.
template <class T, int L, int Copies>
inline void add_rows(const T* rows, const std::int32_t* cells, std::int64_t count,
                     std::int64_t copy, T* sums) {
  using Four = Simd<T, 4>;
  for (std::int64_t s = 0; s < count; s += L)
#pragma GCC unroll 16
    for (int l = 0; l < L; ++l) {
      T* sum = sums + (l % Copies) * copy + 4 * static_cast<std::int64_t>(cells[s + l]);
      Four::store(sum, Four::load(sum) + Four::load(rows + 4 * s + turned_place<L>(l)));
    }
}

// The coefficients of an edge's cells in memory, gathered for a vector of points; with Horner D2/2
// and D3/6.
template <class T, bool Horner>
struct GatheredEdge {
  static constexpr int L = kLanes<T>;
  using V = Simd<T, L>;
  const T* rows;

  void load(const T* from) { rows = from; }
  void at(typename V::Index cell, typename V::Vec* d) const {
    std::int32_t cells[L];
    std::memcpy(cells, &cell, sizeof cells);
    gather_rows<T, L>([&](int l) { return rows + kRows * static_cast<std::int64_t>(cells[l]); }, d);
  }

  static std::int64_t packed_size(std::int64_t n_cells) { return kRows * n_cells; }
  static void pack(const T* b, T c, std::int64_t m, std::int64_t n_cells, T* out) {
    T* weights = scratch<T, 3>(n_cells + kCubicDegree);
    std::fill(weights, weights + n_cells + kCubicDegree, T(0));
    for (std::int64_t j = 0; j < m; ++j) weights[kCubicDegree + j] = c * b[j];
    weights_to_rows<T, 1, Horner>(weights, n_cells, out);
  }
};

#if KANDLE_AVX512
// The same in registers.
template <class T, bool Wide, bool Horner>
struct HeldEdge {
  using Edge = Coefficients<T, Wide>;
  using V = typename Edge::S;
  Edge edge;

  void load(const T* from) { edge.template load<0>(from); }
  void at(typename V::Index cell, typename V::Vec* d) const {
    const auto places = __builtin_convertvector(cell, typename V::IntVec);
    for (int q = 0; q < kRows; ++q) d[q] = edge.at(q, places);
  }

  static std::int64_t packed_size(std::int64_t) { return Edge::kSize; }
  static void pack(const T* b, T c, std::int64_t m, std::int64_t, T* out) {
    Edge::template pack<Horner>(b, c, m, out);
  }
};
#endif

template <class T, int D, int S>
struct Narrow {
  static constexpr int C = 1 + D + S;
  static constexpr int kOrders = 1 + (D > 0) + (S > 0);
  static constexpr int L = kLanes<T>;
  static constexpr int kCopies = 4;
  static constexpr std::int64_t kFewRows = 4;  // that are evaluated without packing, at most
  static constexpr std::int64_t kBlock = C == 1 ? 256 : 64;
  using V = Simd<T, L>;
  using Vec = typename V::Vec;

  const JetArgs<T>& args;
  const Cells<T> cell_grid;
  const std::int64_t n_cells, size;  // `size` numbers per feature: four per cell

  explicit Narrow(const JetArgs<T>& a)
      : args(a), cell_grid(a.spline), n_cells(cell_count(a.spline)), size(kRows * n_cells) {}

  using Gathered = GatheredEdge<T, false>;
  static constexpr bool kHolds = KANDLE_AVX512;
#if KANDLE_AVX512
  template <bool Wide>
  using Held = HeldEdge<T, Wide, false>;
#endif

  template <class Coefficients>
  void pack(std::int64_t model, std::int64_t begin, std::int64_t end, T* out) const {
    const std::int64_t m = args.spline.grid + kCubicDegree;
    const T *b = args.b.at(model), *c = args.c.at(model);
    for (std::int64_t i = begin; i < end; ++i, out += Coefficients::packed_size(n_cells))
      Coefficients::pack(b + i * m, c[i], m, n_cells, out);
  }

  // L points, with derivatives up to order Orders - 1.
  template <int Orders>
  struct Point {
    Vec x[C];  // the point, and its other components in u
    Tabulated<T, L, Orders> at;
    Vec d[kRows];

    template <class Coefficients>
    KANDLE_INLINE Point(const T* source, const Cells<T>& grid, bool residuals,
                        const Coefficients& coefficients)
        : at(V::load(source), grid, residuals) {
      x[0] = V::load(source);
      for (int c = 1; c < C; ++c) x[c] = grid.inverse * V::load(source + c * kBlock);
      coefficients.at(at.cell, d);
    }

    Vec v() const { return at.v; }
    Vec half() const { return at.half; }
    Vec sixth() const { return at.sixth; }
    Vec residual(int order) const { return at.residual[order]; }
    Vec along(int j) const { return x[1 + j]; }
    Vec bent(int j) const { return x[1 + D + j]; }
    Vec twice_along(int j, Vec g, Vec phi2) const { return T(2) * (g * (phi2 * along(j))); }
  };

  // The samples of up to L features, each feature's contiguous.
  void load_group(const T* source, std::int64_t start, std::int64_t count, std::int64_t i,
                  std::int64_t end, T (&columns)[L][C][kBlock]) const {
    for (int c = 0; c < C; ++c)
      load_columns<T, L>(source + (c * args.n + start) * args.n_in + i, args.n_in, count,
                         std::min<std::int64_t>(L, end - i), columns[0][c], C * kBlock);
  }

  void forward(std::int64_t model, Range samples, Range) const {
    if constexpr (C == 1)
      if (samples.end - samples.begin <= kFewRows) return few(model, samples);
#if KANDLE_AVX512
    if (n_cells <= L) return forward<Held<false>>(model, samples);
    if (n_cells <= 2 * L) return forward<Held<true>>(model, samples);
#endif
    forward<Gathered>(model, samples);
  }

  // A few points, to the last bit as others: lanes run over the features of one, whose coefficients
  // are computed for the cells that it is in instead of all.
  void few(std::int64_t model, Range samples) const {
    const std::int64_t n_in = args.n_in, m = args.spline.grid + kCubicDegree;
    const T *b = args.b.at(model), *c = args.c.at(model), *r = args.r.at(model);
    struct Point {
      Tabulated<T, L, 1> at;
      Vec v() const { return at.v; }
      Vec half() const { return at.half; }
      Vec sixth() const { return at.sixth; }
      Vec residual(int order) const { return at.residual[order]; }
    };
    for (std::int64_t s = samples.begin; s < samples.end; ++s) {
      const T* row = args.x.at(model) + s * n_in;
      T sum = args.bias.at(model)[0];
      for (std::int64_t i = 0; i < n_in; i += L) {
        const std::int64_t count = std::min<std::int64_t>(L, n_in - i);
        const auto load = [&](const T* from) {
          Vec values{};
          std::memcpy(&values, from + i, count * sizeof(T));
          return values;
        };
        const Point point{Tabulated<T, L, 1>(load(row), cell_grid, args.residual)};
        alignas(64) T rows[kRows * L] = {};
        for (std::int64_t l = 0; l < count; ++l) {
          const std::int64_t first = point.at.cell[l] - kCubicDegree;
          const std::int64_t begin = std::max<std::int64_t>(0, -first),
                             end = std::min<std::int64_t>(kRows, m - first);
          const T* weights = b + (i + l) * m + first;
          for (std::int64_t t = begin; t < end; ++t) rows[kRows * l + t] = weights[t];
        }
        Vec w[kRows], d[kRows];
        gather_rows<T, L>([&](int l) { return rows + kRows * l; }, w);
        const Vec scale = load(c);
        for (int t = 0; t < kRows; ++t) w[t] = scale * w[t];
        // Rounded as the packed ones are: sums in registers begin with a product, others with zero.
        const auto combine = [&](auto held) {
          for (int q = 0; q < kRows; ++q) {
            Vec sum{};
            if constexpr (held()) sum = T(kCubic[0][q]) * w[0];
            for (int t = held(); t < kRows; ++t) sum += T(kCubic[t][q]) * w[t];
            d[q] = sum;
          }
        };
        if (kHolds && n_cells <= 2 * L) {
          combine(std::true_type{});
        } else {
          combine(std::false_type{});
        }
        const Vec phi = polynomial<0>(d, args.residual ? load(r) : Vec{}, point);
        for (std::int64_t l = 0; l < count; ++l) sum += phi[l];
      }
      args.y[model * args.n + s] = sum;
    }
  }

  template <class Coefficients>
  void forward(std::int64_t model, Range samples) const {
    const std::int64_t n = args.n, n_in = args.n_in;
    const std::int64_t packed_size = Coefficients::packed_size(n_cells);
    T* w = scratch<T, 0>(n_in * packed_size);
    pack<Coefficients>(model, 0, n_in, w);
    const T *source = args.x.at(model), *r = args.r.at(model);
    const T bias = args.bias.at(model)[0];
    T* target = args.y + model * C * n;
    const Cells<T> grid = cell_grid;
    alignas(64) T y[C][kBlock], columns[L][C][kBlock] = {};
    for (std::int64_t start = samples.begin; start < samples.end; start += kBlock) {
      const std::int64_t count = std::min(kBlock, samples.end - start);
      std::fill_n(y[0], kBlock, bias);
      for (int c = 1; c < C; ++c) std::fill_n(y[c], kBlock, T(0));
      for (std::int64_t i = 0; i < n_in; ++i) {
        if (i % L == 0) load_group(source, start, count, i, n_in, columns);
        const auto& x = columns[i % L];
        Coefficients coefficients;
        coefficients.load(w + i * packed_size);
        const Vec weight = V::splat(args.residual ? r[i] : T(0));
        for (std::int64_t s = 0; s < count; s += L) {
          const Point<kOrders> p(&x[0][s], grid, args.residual, coefficients);
          const auto add = [&](int c, Vec value) { V::store(&y[c][s], V::load(&y[c][s]) + value); };
          add(0, polynomial<0>(p.d, weight, p));
          if constexpr (D > 0) {
            const Vec slope = polynomial<1>(p.d, weight, p);
            for (int j = 0; j < D; ++j) add(1 + j, slope * p.along(j));
            if constexpr (S > 0) {
              const Vec bend = polynomial<2>(p.d, weight, p);
              for (int j = 0; j < S; ++j)
                V::store(&y[1 + D + j][s], V::load(&y[1 + D + j][s]) +
                                               bend * (p.along(j) * p.along(j)) +
                                               slope * p.bent(j));
            }
          }
        }
      }
      for (int c = 0; c < C; ++c) std::copy(y[c], y[c] + count, target + c * n + start);
    }
  }

  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
#if KANDLE_AVX512
    if (n_cells <= L) return backward<Held<false>>(model, begin, end);
    if (n_cells <= 2 * L) return backward<Held<true>>(model, begin, end);
#endif
    backward<Gathered>(model, begin, end);
  }

  template <class Coefficients>
  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = args.n, n_in = args.n_in, features = end - begin, copy = size;
    const bool want_x = args.want_x, want_w = args.want_w;
    const std::int64_t packed_size = Coefficients::packed_size(n_cells);
    T* w = scratch<T, 0>(features * packed_size);
    pack<Coefficients>(model, begin, end, w);
    T* sums = scratch<T, 1>(features * kCopies * copy);
    std::fill(sums, sums + features * kCopies * copy, T(0));
    T* residual_sums = scratch<T, 2>(features * L);
    std::fill(residual_sums, residual_sums + features * L, T(0));
    const T *source = args.x.at(model), *r = args.r.at(model), *gradients = args.g.at(model);
    T* dx = want_x ? args.dx + model * C * n * n_in : nullptr;
    const Cells<T> grid = cell_grid;
    alignas(64) T columns[L][C][kBlock] = {}, g[C][kBlock] = {}, outs[L][C][kBlock];
    // Moments wait here for their sums: the long chains of operations of one vector of points and
    // the loads and stores of another would not fit the processor's window together.
    alignas(64) T moment_rows[kRows * kBlock];
    alignas(64) std::int32_t cells[kBlock];
    for (std::int64_t start = 0; start < n; start += kBlock) {
      const std::int64_t count = std::min(kBlock, n - start);
      // Past the end, a gradient of 0 at the point 0 adds nothing.
      for (int c = 0; c < C; ++c)
        std::fill(std::copy_n(gradients + c * n + start, count, g[c]), g[c] + kBlock, T(0));
      if (count < kBlock) std::fill_n(&columns[0][0][0], L * C * kBlock, T(0));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t inner = (i - begin) % L;
        if (inner == 0) load_group(source, start, count, i, end, columns);
        const auto& x = columns[inner];
        auto& out = outs[inner];
        T* cell_sums = sums + (i - begin) * kCopies * copy;
        Vec residual_sum = V::load(residual_sums + (i - begin) * L);
        Coefficients coefficients;
        coefficients.load(w + (i - begin) * packed_size);
        for (std::int64_t s = 0; s < count; s += L) {
          const Point<kOrders + 1> p(&x[0][s], grid, args.residual, coefficients);
          const OutputGradient<Vec, D, S> gradient(p, [&](int c) { return V::load(&g[c][s]); });
          if (want_w) {
            Vec moments[kRows];
            gradient.template add_moments<true>(p, moments, residual_sum);
            turn_rows<T, L>(moments, moment_rows + kRows * s);
            std::memcpy(cells + s, &p.at.cell, sizeof p.at.cell);
          }
          if (want_x)
            gradient.input_gradients(p.d, V::splat(r[i]), p, [&](int c, Vec value) {
              V::store(&out[c][s], grid.inverse * value);
            });
        }
        if (want_w)
          add_rows<T, L, kCopies>(moment_rows, cells, round_up(count, L), copy, cell_sums);
        V::store(residual_sums + (i - begin) * L, residual_sum);
        if (want_x && (inner == L - 1 || i == end - 1))
          for (int c = 0; c < C; ++c)
            store_columns<T, L>(outs[0][c], C * kBlock, count, inner + 1,
                                dx + (c * n + start) * n_in + i - inner, n_in);
      }
    }
    if (!want_w) return;
    for (std::int64_t i = begin; i < end; ++i)
      unpack(model, i, kCopies, sums + (i - begin) * kCopies * copy,
             residual_sums + (i - begin) * L);
    if (begin == 0) bias_gradient(model);
  }

  // The moments of the cells, in some copies, to dr, dc and db.
  void unpack(std::int64_t model, std::int64_t i, int copies, T* sums,
              const T* residual_sum) const {
    for (int k = 1; k < copies; ++k)
      for (std::int64_t j = 0; j < size; ++j) sums[j] += sums[k * size + j];
    T* dw = scratch<T, 3>(n_cells + kCubicDegree);
    moments_to_gradients<T, 1>(sums, n_cells, dw);
    T residual = T(0);
    for (int l = 0; l < L; ++l) residual += residual_sum[l];
    const std::int64_t m = args.spline.grid + kCubicDegree, edge = model * args.n_in + i;
    const T scale = args.c.at(model)[i], *b = args.b.at(model) + i * m;
    T sum = T(0);
    for (std::int64_t j = 0; j < m; ++j) {
      args.db[edge * m + j] = scale * dw[kCubicDegree + j];
      sum += b[j] * dw[kCubicDegree + j];
    }
    args.dc[edge] = sum;
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
