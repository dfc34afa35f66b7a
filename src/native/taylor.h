// Cubic splines as one Taylor polynomial per cell and output.
//
// With v = u - 1/2 the position in a cell, the sum of a feature's splines on that cell is
//
//   phi(v) = D0 + v D1 + v^2/2 D2 + v^3/6 D3,    phi' = D1 + v D2 + v^2/2 D3,    ...
//
// Four numbers thus give the value and all derivatives, where the functions themselves would need
// four weights and a table per order. The gradients of the D_q are sums of moments, turned into
// those of the weights at the end. All derivatives are with respect to u.
//
// Two layouts use these polynomials: slim.h, whose lanes are outputs and whose points are numbers,
// and narrow.h, whose lanes are points. A `Point` below is either: v, half = v^2/2, sixth = v^3/6,
// residual(q) = the q-th derivative of R, along(d) and bent(d) = its first and second derivatives
// in direction d.
#pragma once

#include "basis.h"

namespace kandle {
namespace KANDLE_ISA {

inline constexpr int kCubicDegree = 3, kRows = 4;  // rows D0 .. D3 per cell

// The q-th derivatives in u of the four cubics that live in a cell, at its centre:
// D_q = sum_t kCubic[t][q] w_t with the weights w_t of the four.
inline constexpr double kCubic[4][4] = {{1.0 / 48, -1.0 / 8, 1.0 / 2, -1.0},
                                        {23.0 / 48, -5.0 / 8, -1.0 / 2, 3.0},
                                        {23.0 / 48, 5.0 / 8, -1.0 / 2, -3.0},
                                        {1.0 / 48, 1.0 / 8, 1.0 / 2, 1.0}};

// Weights (n_cells + 3, L) to coefficients (n_cells, 4, L); with Horner D2/2 and D3/6, so that v
// alone gives the value.
template <class T, int L, bool Horner>
inline void weights_to_rows(const T* weights, std::int64_t n_cells, T* rows) {
  using S = Row<T, L>;
  constexpr T factor[kRows] = {T(1), T(1), Horner ? T(0.5) : T(1), Horner ? T(1.0 / 6) : T(1)};
  for (std::int64_t j = 0; j < n_cells; ++j)
    for (int q = 0; q < kRows; ++q) {
      typename S::Vec sum{};
      if constexpr (L > 1) sum = T(kCubic[0][q]) * S::load(weights + j * L);
      for (int t = L > 1; t <= kCubicDegree; ++t)
        sum += T(kCubic[t][q]) * S::load(weights + (j + t) * L);
      S::store(rows + (kRows * j + q) * L, sum * factor[q]);
    }
}

// The transpose: moments (n_cells, 4, L) to the gradients of the weights (n_cells + 3, L).
template <class T, int L>
inline void moments_to_gradients(const T* moments, std::int64_t n_cells, T* gradients) {
  using S = Row<T, L>;
  std::fill(gradients, gradients + (n_cells + kCubicDegree) * L, T(0));
  for (std::int64_t j = 0; j < n_cells; ++j)
    for (int t = 0; t <= kCubicDegree; ++t) {
      typename S::Vec sum = S::load(gradients + (j + t) * L);
      for (int q = 0; q < kRows; ++q)
        sum += T(kCubic[t][q]) * S::load(moments + (kRows * j + q) * L);
      S::store(gradients + (j + t) * L, sum);
    }
}

// What a vector of points contributes to the two layouts' tables, with derivatives in u.
template <class T, int L, int Orders>
struct Tabulated {
  using S = Simd<T, L>;
  typename S::Index cell;
  typename S::Vec v, half, sixth, residual[Orders];

  KANDLE_INLINE Tabulated(typename S::Vec x, const Cells<T>& grid, bool residuals) {
    const auto at = locate<T, L>(x, grid);
    cell = __builtin_convertvector(at.cell, typename S::Index);
    v = at.u - T(0.5);
    const typename S::Vec square = v * v;
    half = T(0.5) * square;
    sixth = T(1.0 / 6) * (square * v);
    if (residuals) {
      evaluate_silu<T, L, Orders>(x, residual);
    } else {
      for (int order = 0; order < Orders; ++order) residual[order] = at.poison;
    }
    const T inverse = T(1) / grid.inverse;
    T unit = T(1);
    for (int order = 1; order < Orders; ++order) residual[order] *= unit *= inverse;
  }
};

// phi^(order) at a point, r being the weight of the residual.
template <int Order, class Vec, class Point>
KANDLE_INLINE Vec polynomial(const Vec* d, Vec r, const Point& p) {
  Vec sum = d[Order];
  if constexpr (Order + 1 < kRows) sum += d[Order + 1] * p.v();
  if constexpr (Order + 2 < kRows) sum += d[Order + 2] * p.half();
  if constexpr (Order + 3 < kRows) sum += d[Order + 3] * p.sixth();
  return sum + r * p.residual(Order);
}

// The gradients of a point's outputs, D first and S second derivatives included: `slope` and `bend`
// are what multiplies phi' and phi'' in the sum of all components times their gradients.
template <class Vec, int D, int S>
struct OutputGradient {
  Vec of[1 + D + S], slope{}, bend{};

  template <class Point, class Load>
  OutputGradient(const Point& p, const Load& load) {
    for (int c = 0; c < 1 + D + S; ++c) of[c] = load(c);
    for (int d = 0; d < D; ++d) slope += of[1 + d] * p.along(d);
    for (int d = 0; d < S; ++d) {
      slope += of[1 + D + d] * p.bent(d);
      bend += of[1 + D + d] * (p.along(d) * p.along(d));
    }
  }

  // The gradients of D0 .. D3, added to `moment` or, where Fresh, stored there; and that of r,
  // added.
  template <bool Fresh, class Point>
  void add_moments(const Point& p, Vec* moment, Vec& residual) const {
    if constexpr (Fresh) {
      moment[0] = of[0];
      moment[1] = of[0] * p.v();
      moment[2] = of[0] * p.half();
      moment[3] = of[0] * p.sixth();
    } else {
      moment[0] += of[0];
      moment[1] += of[0] * p.v();
      moment[2] += of[0] * p.half();
      moment[3] += of[0] * p.sixth();
    }
    residual += of[0] * p.residual(0);
    if constexpr (D > 0) {
      moment[1] += slope;
      moment[2] += slope * p.v();
      moment[3] += slope * p.half();
      residual += slope * p.residual(1);
    }
    if constexpr (S > 0) {
      moment[2] += bend;
      moment[3] += bend * p.v();
      residual += bend * p.residual(2);
    }
  }

  // The gradients of the point and of its derivatives: store(c, gradient of component c).
  template <class Point, class Store>
  void input_gradients(const Vec* d, Vec r, const Point& p, const Store& store) const {
    const Vec phi1 = polynomial<1>(d, r, p);
    Vec sum = of[0] * phi1, phi2{};
    if constexpr (D > 0) {
      phi2 = polynomial<2>(d, r, p);
      sum += slope * phi2;
    }
    if constexpr (S > 0) sum += bend * polynomial<3>(d, r, p);
    store(0, sum);
    for (int c = 0; c < D; ++c) {
      Vec gradient = of[1 + c] * phi1;
      if (c < S) gradient += p.twice_along(c, of[1 + D + c], phi2);
      store(1 + c, gradient);
    }
    for (int c = 0; c < S; ++c) store(1 + D + c, of[1 + D + c] * phi1);
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
