// The general operations that every derivative of the layer is made of: plain loops over the active
// functions, vectorised over outputs by the compiler.
#pragma once

#include <algorithm>

#include "basis.h"

namespace kandle {
namespace KANDLE_ISA {

// The cell of one point and its taps of one order; functions beyond the first and last are left out by
// the bounds low <= t < high.
template <class T>
struct Active {
  std::int64_t origin;  // index m of tap 0
  int low, high;
  T value[kMaxDegree + 1];

  Active(T x, const Spline& spline, const TapTable<T>& table, int order) {
    typename Simd<T, 1>::Vec lane = {x};
    const auto at = locate<T, 1>(lane, Cells<T>(spline));
    typename Simd<T, 1>::Vec taps[kMaxDegree + 1];
    evaluate_taps<T, 1, 0>(table, spline.degree, order, at, taps);
    origin = static_cast<std::int64_t>(at.cell[0]) - spline.degree;
    low = static_cast<int>(std::max<std::int64_t>(0, -origin));
    const std::int64_t n_basis = spline.grid + spline.degree;
    high = static_cast<int>(std::min<std::int64_t>(spline.degree + 1, n_basis - origin));
    if (!(x - x == T(0))) origin = 0, low = 0, high = 1;  // NaN reaches the result through one function
    for (int t = 0; t <= spline.degree; ++t) value[t] = taps[t][0] + at.poison[0];
  }
};

template <class T>
void trilinear_y(const TrilinearArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const TapTable<T> table(p.spline, p.order);
  const std::int64_t I = p.n_in, O = p.n_out, M = p.spline.grid + p.spline.degree;
  const T *x = p.x.at(model), *a = p.a.at(model), *w = p.w.at(model);
  T* y = p.out + model * p.n * O;
  for (std::int64_t s = begin; s < end; ++s) {
    T* row = y + s * O;
    std::fill(row, row + O, T(0));
    for (std::int64_t i = 0; i < I; ++i) {
      const Active<T> active(x[s * I + i], p.spline, table, p.order);
      for (int t = active.low; t < active.high; ++t) {
        const T scale = a[s * I + i] * active.value[t];
        const T* weight = w + (i * M + active.origin + t) * O;
        for (std::int64_t o = 0; o < O; ++o) row[o] += scale * weight[o];
      }
    }
  }
}

template <class T>
void trilinear_a(const TrilinearArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const TapTable<T> table(p.spline, p.order);
  const std::int64_t I = p.n_in, O = p.n_out, M = p.spline.grid + p.spline.degree;
  const T *x = p.x.at(model), *w = p.w.at(model), *g = p.g.at(model);
  T* out = p.out + model * p.n * I;
  constexpr int L = kLanes<T>;
  for (std::int64_t s = begin; s < end; ++s)
    for (std::int64_t i = 0; i < I; ++i) {
      const Active<T> active(x[s * I + i], p.spline, table, p.order);
      T sum = T(0);
      for (int t = active.low; t < active.high; ++t) {
        const T* weight = w + (i * M + active.origin + t) * O;
        T lanes[L] = {}, dot = T(0);
        std::int64_t o = 0;
        for (; o + L <= O; o += L)
          for (int l = 0; l < L; ++l) lanes[l] += weight[o + l] * g[s * O + o + l];
        for (; o < O; ++o) dot += weight[o] * g[s * O + o];
        for (int l = 0; l < L; ++l) dot += lanes[l];
        sum += active.value[t] * dot;
      }
      out[s * I + i] = sum;
    }
}

template <class T>
void trilinear_w(const TrilinearArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const TapTable<T> table(p.spline, p.order);
  const std::int64_t I = p.n_in, O = p.n_out, M = p.spline.grid + p.spline.degree;
  const T *x = p.x.at(model), *a = p.a.at(model), *g = p.g.at(model);
  T* out = p.out + model * I * M * O;
  for (std::int64_t i = begin; i < end; ++i) {
    T* feature = out + i * M * O;
    std::fill(feature, feature + M * O, T(0));
    for (std::int64_t s = 0; s < p.n; ++s) {
      const Active<T> active(x[s * I + i], p.spline, table, p.order);
      for (int t = active.low; t < active.high; ++t) {
        const T scale = a[s * I + i] * active.value[t];
        T* row = feature + (active.origin + t) * O;
        for (std::int64_t o = 0; o < O; ++o) row[o] += scale * g[s * O + o];
      }
    }
  }
}

// Both factors of one function, or the first alone.
template <class T>
struct Pair {
  const TapTable<T> first, second;
  explicit Pair(const PairArgs<T>& p) : first(p.spline, p.order), second(p.spline, std::max(p.other, 0)) {}

  Active<T> at(const PairArgs<T>& p, T x) const {
    Active<T> active(x, p.spline, first, p.order);
    if (p.other >= 0) {
      const Active<T> factor(x, p.spline, second, p.other);
      for (int t = 0; t <= p.spline.degree; ++t) active.value[t] *= factor.value[t];
    }
    return active;
  }
};

template <class T>
void pair_a(const PairArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const Pair<T> pair(p);
  const std::int64_t I = p.n_in, M = p.spline.grid + p.spline.degree;
  const T *x = p.x.at(model), *w = p.w.at(model);
  T* out = p.out + model * p.n * I;
  for (std::int64_t s = begin; s < end; ++s)
    for (std::int64_t i = 0; i < I; ++i) {
      const Active<T> active = pair.at(p, x[s * I + i]);
      T sum = T(0);
      for (int t = active.low; t < active.high; ++t) sum += active.value[t] * w[i * M + active.origin + t];
      out[s * I + i] = sum;
    }
}

template <class T>
void pair_w(const PairArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const Pair<T> pair(p);
  const std::int64_t I = p.n_in, M = p.spline.grid + p.spline.degree;
  const T *x = p.x.at(model), *a = p.a.at(model);
  T* out = p.out + model * I * M;
  for (std::int64_t i = begin; i < end; ++i) {
    T* row = out + i * M;
    std::fill(row, row + M, T(0));
    for (std::int64_t s = 0; s < p.n; ++s) {
      const Active<T> active = pair.at(p, x[s * I + i]);
      for (int t = active.low; t < active.high; ++t)
        row[active.origin + t] += a[s * I + i] * active.value[t];
    }
  }
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
