// Layers of cubics whose cells fit into registers: lanes run over samples, and the Taylor
// coefficients of an edge's cells (taylor.h) are entries of one register, or of two, that one
// instruction looks up for a whole vector of samples.
//
// Compared with rows of outputs, nothing is broadcast, no lanes are summed across, and layers of
// two or four outputs leave no lane idle. Only AVX-512 has lookups of this size.
#pragma once

#include <algorithm>

#include "points.h"
#include "scratch.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

#if KANDLE_AVX512

namespace detail {

inline __m512 look_up(__m512 table, __m512i at) { return _mm512_permutexvar_ps(at, table); }
inline __m512d look_up(__m512d table, __m512i at) { return _mm512_permutexvar_pd(at, table); }
inline __m512 look_up(__m512 low, __m512 high, __m512i at) {
  return _mm512_permutex2var_ps(low, at, high);
}
inline __m512d look_up(__m512d low, __m512d high, __m512i at) {
  return _mm512_permutex2var_pd(low, at, high);
}
inline __m512 load_lanes(unsigned lanes, const float* p) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(lanes), p);
}
inline __m512d load_lanes(unsigned lanes, const double* p) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(lanes), p);
}

}  // namespace detail

// The coefficients of one edge: row q holds D_q of up to L cells or, if Wide, 2 L.
template <class T, bool Wide>
struct Coefficients {
  static constexpr int L = kLanes<T>, kHalves = 1 + Wide;
  static constexpr std::int64_t kSize = kRows * kHalves * L;
  using S = Simd<T, L>;
  using Vec = typename S::Vec;
  using Places = typename S::IntVec;

  Vec rows[kRows][kHalves];

  // From row First on; those before it are not loaded.
  template <int First>
  void load(const T* from) {
    for (int q = First; q < kRows; ++q)
      for (int half = 0; half < kHalves; ++half)
        rows[q][half] = hold(S::load(from + (q * kHalves + half) * L));
  }

  Vec at(int q, Places cell) const {
    if constexpr (Wide) {
      return detail::look_up(rows[q][0], rows[q][1], (__m512i)cell);
    } else {
      return detail::look_up(rows[q][0], (__m512i)cell);
    }
  }

  static Places places(const std::int32_t* cells) {
    typename S::Index index;
    std::memcpy(&index, cells, sizeof index);
    return __builtin_convertvector(index, Places);
  }

  // The coefficients of c b for the m functions b of an edge; with Horner D2/2 and D3/6.
  template <bool Horner>
  static void pack(const T* b, T c, std::int64_t m, T* out) {
    constexpr T factor[kRows] = {T(1), T(1), Horner ? T(0.5) : T(1), Horner ? T(1.0 / 6) : T(1)};
    for (int half = 0; half < kHalves; ++half) {
      Vec weight[4];  // weight[t]: that of the t-th function of every cell, 0 where there is none
      for (int t = 0; t <= kCubicDegree; ++t) {
        const std::int64_t first = half * L + t - kCubicDegree;
        const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, L);
        const std::int64_t end = std::clamp<std::int64_t>(m - first, 0, L);
        const unsigned lanes = ((1u << end) - 1) & ~((1u << begin) - 1);
        weight[t] = c * (Vec)detail::load_lanes(lanes, b + first);
      }
      for (int q = 0; q < kRows; ++q) {
        Vec sum = T(kCubic[0][q]) * weight[0];
        for (int t = 1; t <= kCubicDegree; ++t) sum += T(kCubic[t][q]) * weight[t];
        S::store(out + (q * kHalves + half) * L, sum * factor[q]);
      }
    }
  }
};

template <class T, int D, int S, bool Wide>
struct Lookup {
  using Points = PointTable<T, D, S>;
  static constexpr int C = Points::C, kOrders = Points::kOrders, kTable = Points::kTable;
  using Edge = Coefficients<T, Wide>;
  static constexpr int L = Edge::L;
  static constexpr std::int64_t kBlock = C == 1 ? 256 : 64;
  // Outputs whose coefficients stay in registers together.
  static constexpr int kOutputs = (C == 1 ? 4 : 2) / (Wide ? 2 : 1);
  using V = Simd<T, L>;
  using Vec = typename V::Vec;
  using Places = typename V::IntVec;

  const JetArgs<T>& args;
  const Cells<T> cell_grid;

  explicit Lookup(const JetArgs<T>& a) : args(a), cell_grid(a.spline) {}

  // The weights of features begin .. end - 1, the outputs of a feature following each other.
  struct Packed {
    T *r, *edges;
    void advance(std::int64_t count) { r += count, edges += count * Edge::kSize; }
  };

  template <bool Horner>
  Packed pack(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n_in = args.n_in, n_out = args.n_out, m = args.spline.grid + kCubicDegree;
    const std::int64_t count = (end - begin) * n_out;
    T* edges = scratch<T, 5>(count * (Edge::kSize + 1));
    const Packed packed{edges + count * Edge::kSize, edges};
    const T *b = args.b.at(model), *c = args.c.at(model), *r = args.r.at(model);
    Packed to = packed;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t o = 0; o < n_out; ++o, to.advance(1)) {
        const std::int64_t edge = o * n_in + i;
        Edge::template pack<Horner>(b + edge * m, c[edge], m, to.edges);
        *to.r = args.residual ? r[edge] : T(0);
      }
    return packed;
  }

  // Adds one feature to O outputs of `count` points; y[c][o][s] has `component` numbers per c.
  template <int O>
  void accumulate(const Packed& w, const T* table, const std::int32_t* cells, std::int64_t count,
                  T* y, std::int64_t component) const {
    Edge edge[O];
    Vec r[O];
    for (int o = 0; o < O; ++o) {
      edge[o].template load<0>(w.edges + o * Edge::kSize);
      r[o] = V::splat(w.r[o]);
    }
    for (std::int64_t s = 0; s < count; s += L) {
      const Places cell = Edge::places(cells + s);
      const typename Points::template Point<V, kBlock> p{table + s};
      const Vec v = hold(p.v()), residual = hold(p.residual(0));
#pragma GCC unroll 4
      for (int o = 0; o < O; ++o) {
        const Vec d[kRows] = {edge[o].at(0, cell), edge[o].at(1, cell), edge[o].at(2, cell),
                              edge[o].at(3, cell)};
        T* out = y + o * kBlock + s;
        if constexpr (C == 1) {
          Vec phi = d[3] * v + d[2];
          phi = phi * v + d[1];
          V::store(out, phi * v + (r[o] * residual + (V::load(out) + d[0])));
        } else {
          const auto add = [&](int c, Vec value) {
            V::store(out + c * component, V::load(out + c * component) + value);
          };
          const Vec slope = polynomial<1>(d, r[o], p);
          add(0, polynomial<0>(d, r[o], p));
          for (int j = 0; j < D; ++j) add(1 + j, slope * p.along(j));
          if constexpr (S > 0) {
            const Vec bend = polynomial<2>(d, r[o], p);
            for (int j = 0; j < S; ++j)
              add(1 + D + j, bend * (p.along(j) * p.along(j)) + slope * p.bent(j));
          }
        }
      }
    }
  }

  void forward(std::int64_t model, Range samples, Range) const {
    constexpr std::int64_t B = kBlock;
    const std::int64_t n_in = args.n_in, n_out = args.n_out, n = args.n, component = n_out * B;
    const Packed packed = pack<C == 1>(model, 0, n_in);
    T* y = scratch<T, 1>(C * component);
    T* x = scratch<T, 3>(L * (C + kTable) * B);
    T* tables = x + L * C * B;
    std::int32_t* cells = scratch<std::int32_t, 4>(L * B);
    std::fill_n(x, L * C * B, T(0));
    const T *source = args.x.at(model), *bias = args.bias.at(model);
    T* target = args.y + model * C * n * n_out;
    for (std::int64_t start = samples.begin; start < samples.end; start += B) {
      const std::int64_t count = std::min(B, samples.end - start), whole = round_up(count, L);
      for (std::int64_t o = 0; o < n_out; ++o) std::fill_n(y + o * B, whole, bias[o]);
      if constexpr (C > 1) std::fill_n(y + component, (C - 1) * component, T(0));
      for (std::int64_t group = 0; group < n_in; group += L) {
        const std::int64_t width = std::min<std::int64_t>(L, n_in - group);
        for (int c = 0; c < C; ++c)
          load_columns<T, L>(source + (c * n + start) * n_in + group, n_in, count, width, x + c * B,
                             C * B);
        for (std::int64_t f = 0; f < width; ++f)
          Points::template tabulate<kOrders, B>(x + f * C * B, whole, cell_grid, args.residual,
                                                tables + f * kTable * B, cells + f * B);
        std::int64_t o = 0;
        const auto outputs = [&](auto size) {
          for (; o + size() <= n_out; o += size()) {
            Packed w = packed;
            w.advance(group * n_out + o);
            for (std::int64_t f = 0; f < width; ++f, w.advance(n_out))
              accumulate<size()>(w, tables + f * kTable * B, cells + f * B, whole, y + o * B,
                                 component);
          }
        };
        outputs(std::integral_constant<int, kOutputs>{});
        if constexpr (kOutputs > 2) outputs(std::integral_constant<int, 2>{});
        if constexpr (kOutputs > 1) outputs(std::integral_constant<int, 1>{});
      }
      for (int c = 0; c < C; ++c)
        for (std::int64_t o = 0; o < n_out; o += L)
          store_columns<T, L>(y + c * component + o * B, B, count,
                              std::min<std::int64_t>(L, n_out - o),
                              target + (c * n + start) * n_out + o, n_out);
    }
  }

  // The gradients of the inputs, block by block of B samples.
  template <std::int64_t B>
  struct InputGradients {
    using Point = typename Points::template Point<V, B>;
    // Vectors of samples that share what is loaded of an edge.
    static constexpr int kVectors = 4;

    const JetArgs<T>& args;
    const T inverse;
    const Packed packed;
    const std::int64_t component;
    T* const g;  // gradients of a block's outputs, g[c][o][s]

    InputGradients(const Lookup& lookup, std::int64_t model, std::int64_t begin, std::int64_t end)
        : args(lookup.args),
          inverse(lookup.cell_grid.inverse),
          packed(lookup.pack<false>(model, begin, end)),
          component(args.n_out * B),
          g(scratch<T, 6>(C * component)) {
      std::fill_n(g, C * component, T(0));
    }

    void load_block(std::int64_t model, std::int64_t start, std::int64_t count) const {
      const std::int64_t n_out = args.n_out;
      for (int c = 0; c < C; ++c)
        for (std::int64_t o = 0; o < n_out; o += L)
          load_columns<T, L>(args.g.at(model) + (c * args.n + start) * n_out + o, n_out, count,
                             std::min<std::int64_t>(L, n_out - o), g + c * component + o * B, B);
    }

    // dx[c][s] of the points of one feature, which is counted from the first one packed.
    void feature(std::int64_t i, const T* table, const std::int32_t* cells, std::int64_t count,
                 T* dx) const {
      Packed w = packed;
      w.advance(i * args.n_out);
      std::int64_t s = 0;
      if constexpr (C == 1) {
        for (; s + kVectors * L <= count; s += kVectors * L)
          values<kVectors>(w, table + s, cells + s, g + s, dx + s);
        for (; s < count; s += L) values<1>(w, table + s, cells + s, g + s, dx + s);
      } else {
        for (; s < count; s += L) jets(w, table + s, cells + s, g + s, dx + s);
      }
    }

    // Of U vectors of points without derivatives. In phi' = D1 + v D2 + v^2/2 D3 + r R' the factors
    // of D and r do not depend on the output: what is summed over outputs is g D and g r.
    template <int U>
    void values(const Packed& w, const T* table, const std::int32_t* cells, const T* gradients,
                T* dx) const {
      Places cell[U];
      for (int u = 0; u < U; ++u) cell[u] = Edge::places(cells + u * L);
      Vec sums[kRows][U] = {};
      for (std::int64_t o = 0; o < args.n_out; ++o) {
        Edge edge;
        edge.template load<1>(w.edges + o * Edge::kSize);
        const Vec r = V::splat(w.r[o]);
#pragma GCC unroll 4
        for (int u = 0; u < U; ++u) {
          const Vec gradient = hold(V::load(gradients + o * B + u * L));
          sums[0][u] += gradient * r;
#pragma GCC unroll 4
          for (int q = 1; q < kRows; ++q) sums[q][u] += gradient * edge.at(q, cell[u]);
        }
      }
      for (int u = 0; u < U; ++u) {
        const Point p{table + u * L};
        const Vec sum = sums[1][u] + sums[2][u] * p.v() + sums[3][u] * p.half();
        V::store(dx + u * L, inverse * (sum + sums[0][u] * p.residual(1)));
      }
    }

    // Of one vector of points with derivatives: sums over outputs of the gradients times the first
    // three derivatives of phi, combined at the end.
    void jets(const Packed& w, const T* table, const std::int32_t* cells, const T* gradients,
              T* dx) const {
      const Places cell = Edge::places(cells);
      const Point p{table};
      Vec first[C] = {}, second[C] = {}, third[S + 1] = {};
      for (std::int64_t o = 0; o < args.n_out; ++o) {
        Edge edge;
        edge.template load<1>(w.edges + o * Edge::kSize);
        const Vec r = V::splat(w.r[o]);
        const Vec d[kRows] = {Vec{}, edge.at(1, cell), edge.at(2, cell), edge.at(3, cell)};
        const Vec phi1 = polynomial<1>(d, r, p), phi2 = polynomial<2>(d, r, p);
#pragma GCC unroll 5
        for (int c = 0; c < C; ++c) {
          const Vec gradient = V::load(gradients + c * component + o * B);
          first[c] += gradient * phi1;
          if (c > 0) second[c] += gradient * phi2;
          if constexpr (S > 0)
            if (c > D) third[c - D - 1] += gradient * polynomial<3>(d, r, p);
        }
      }
      for (int j = 0; j < D; ++j) {
        first[0] += second[1 + j] * p.along(j);
        if (j < S) {
          const Vec bent = second[1 + D + j];
          first[0] += third[j] * (p.along(j) * p.along(j)) + bent * p.bent(j);
          first[1 + j] += T(2) * (bent * p.along(j));
        }
      }
      for (int c = 0; c < C; ++c) V::store(dx + c * B, inverse * first[c]);
    }
  };
};

#endif  // KANDLE_AVX512

// Calls work(Lookup) where the cells of the layer fit; returns whether they do.
template <class T, int D, int S, class Work>
bool with_lookup(const JetArgs<T>& a, const Work& work) {
#if KANDLE_AVX512
  const std::int64_t cells = cell_count(a.spline);
  if (cells <= kLanes<T>) return work(Lookup<T, D, S, false>(a)), true;
  if (cells <= 2 * kLanes<T>) return work(Lookup<T, D, S, true>(a)), true;
#endif
  return false;
}

}  // namespace KANDLE_ISA
}  // namespace kandle
