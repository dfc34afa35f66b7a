// The pair forms, which the basis' batch statistics are made of, and sums of rows.
#pragma once

#include <algorithm>

#include "basis.h"
#include "scratch.h"

namespace kandle {
namespace KANDLE_ISA {

// The pair form's factor at L neighbouring points of one feature: B_m^(order) B_m^(other) of the
// degree + 1 functions that live in each point's cell. K is the degree, or 0 where only the run
// time knows it.
template <class T, int K>
struct Pair {
  static constexpr int L = kLanes<T>;
  using S = Simd<T, L>;
  using Vec = typename S::Vec;

  const int degree, order, other;
  const Cells<T> cells;
  const TapTable<T> first, second;

  explicit Pair(const PairArgs<T>& p)
      : degree(K ? K : p.spline.degree),
        order(p.order),
        other(p.other),
        cells(p.spline),
        first(p.spline, p.order),
        second(p.spline, std::max(p.other, 0)) {}

  // Rows of zeros before and after the functions' own, as basis.h has them: no cell is out of
  // bounds.
  static std::int64_t rows(const Spline& spline) { return cell_count(spline) + spline.degree; }

  // taps[t][l] and cell[l] of the points x[0], x[step], ...; of the last point where there are
  // fewer.
  void at(const T* x, std::int64_t step, std::int64_t count, T (*taps)[L],
          typename S::Int* cell) const {
    Vec points;
    for (int l = 0; l < L; ++l) points[l] = x[std::min<std::int64_t>(l, count - 1) * step];
    const auto located = locate<T, L>(points, cells);
    Vec value[kMaxDegree + 1], factor[kMaxDegree + 1];
    evaluate_taps<T, L, K>(first, degree, order, located, value);
    if (other >= 0 && other != order)
      evaluate_taps<T, L, K>(second, degree, other, located, factor);
    for (int t = 0; t <= degree; ++t) {
      // The derivative of order `degree` is a constant that the position does not enter: NaN must.
      const Vec v = value[t] + located.poison;
      S::store(taps[t], other < 0 ? v : v * (other == order ? v : factor[t]));
    }
    for (int l = 0; l < L; ++l) cell[l] = located.cell[l];
  }
};

template <class T, int K>
void pair_a_of(const PairArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const Pair<T, K> pair(p);
  constexpr int L = Pair<T, K>::L;
  const int k = pair.degree;
  const std::int64_t I = p.n_in, M = p.spline.grid + k;
  const T *x = p.x.at(model), *w = p.w.at(model);
  T* out = p.out + model * p.n * I;
  const std::int64_t rows = Pair<T, K>::rows(p.spline);
  T* padded = scratch<T, 0>(rows);
  std::fill(padded, padded + rows, T(0));
  T taps[kMaxDegree + 1][L];
  typename Pair<T, K>::S::Int cell[L];
  for (std::int64_t i = 0; i < I; ++i) {
    std::copy(w + i * M, w + (i + 1) * M, padded + k);
    for (std::int64_t s = begin; s < end; s += L) {
      const std::int64_t count = std::min<std::int64_t>(L, end - s);
      pair.at(x + s * I + i, I, count, taps, cell);
      for (std::int64_t l = 0; l < count; ++l) {
        const T* weight = padded + cell[l];
        T sum = T(0);
        for (int t = 0; t <= k; ++t) sum += taps[t][l] * weight[t];
        out[(s + l) * I + i] = sum;
      }
    }
  }
}

template <class T, int K>
void pair_w_of(const PairArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const Pair<T, K> pair(p);
  constexpr int L = Pair<T, K>::L;
  const int k = pair.degree;
  const std::int64_t I = p.n_in, M = p.spline.grid + k;
  const T *x = p.x.at(model), *a = p.a.at(model);
  T* out = p.out + model * I * M;
  // Sums of sums of B points: the rounding error of float32 grows with B + n / B, not with n.
  constexpr std::int64_t B = 512;
  const std::int64_t rows = Pair<T, K>::rows(p.spline);
  T* padded = scratch<T, 0>(rows);
  T taps[kMaxDegree + 1][L];
  typename Pair<T, K>::S::Int cell[L];
  for (std::int64_t i = begin; i < end; ++i) {
    T* total = out + i * M;
    std::fill(total, total + M, T(0));
    for (std::int64_t start = 0; start < p.n; start += B) {
      const std::int64_t stop = std::min(start + B, p.n);
      std::fill(padded, padded + rows, T(0));
      for (std::int64_t s = start; s < stop; s += L) {
        const std::int64_t count = std::min<std::int64_t>(L, stop - s);
        pair.at(x + s * I + i, I, count, taps, cell);
        for (std::int64_t l = 0; l < count; ++l) {
          T* row = padded + cell[l];
          const T scale = a[(s + l) * I + i];
          for (int t = 0; t <= k; ++t) row[t] += scale * taps[t][l];
        }
      }
      for (std::int64_t m = 0; m < M; ++m) total[m] += padded[k + m];
    }
  }
}

template <class T>
void pair_a(const PairArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  if (p.spline.degree == 3) return pair_a_of<T, 3>(p, model, begin, end);
  pair_a_of<T, 0>(p, model, begin, end);
}

template <class T>
void pair_w(const PairArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  if (p.spline.degree == 3) return pair_w_of<T, 3>(p, model, begin, end);
  pair_w_of<T, 0>(p, model, begin, end);
}

// Sums of rows of length n, each in an order that depends on n alone.
template <class T>
void total(const T* x, std::int64_t n, T* out, std::int64_t begin, std::int64_t end) {
  constexpr int L = 16;
  constexpr std::int64_t B = 1024;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = x + row * n;
    T sum = T(0);
    for (std::int64_t start = 0; start < n; start += B) {
      const std::int64_t stop = std::min(start + B, n);
      T lanes[L] = {};
      std::int64_t s = start;
      for (; s + L <= stop; s += L)
        for (int l = 0; l < L; ++l) lanes[l] += p[s + l];
      for (int l = 0; s < stop; ++s, ++l) lanes[l] += p[s];
      for (int half = L / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      sum += lanes[0];
    }
    out[row] = sum;
  }
}

}  // namespace KANDLE_ISA
}  // namespace kandle
