// Uniform B-splines by their closed form: which cell a point is in, and the degree + 1 functions
// that live there, with derivatives; SiLU and its derivatives.
//
// Cells are counted over the augmented interval, 0 .. grid + 2 degree - 1, and one more cell holds
// all points outside. The weights of a feature are stored between rows of zeros, so that cell J
// always uses rows J .. J + degree, and those of the outer cell are all zero.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "kernel.h"
#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

// The cardinal splines of all degrees: piece[k][s][p] is the coefficient of u^p, u = x - s, of the
// one of degree k on [s, s+1], from B_q(x) = (x B_{q-1}(x) + (q + 1 - x) B_{q-1}(x - 1)) / q.
struct CardinalSplines {
  double piece[kMaxDegree + 1][kMaxDegree + 1][kMaxDegree + 1] = {};

  constexpr CardinalSplines() {
    piece[0][0][0] = 1.0;
    for (int q = 1; q <= kMaxDegree; ++q)
      for (int s = 0; s <= q; ++s)
        for (int p = 0; p < q; ++p) {
          const double left = s < q ? piece[q - 1][s][p] : 0.0;
          const double right = s > 0 ? piece[q - 1][s - 1][p] : 0.0;
          piece[q][s][p] += (s * left + (q + 1 - s) * right) / q;
          piece[q][s][p + 1] += (left - right) / q;
        }
  }
};
inline constexpr CardinalSplines kCardinalSplines;

// taps[t][p]: coefficient of u^p of the t-th active function, differentiated `order` times in x.
template <class T>
struct TapTable {
  T taps[kMaxDegree + 1][kMaxDegree + 1];

  TapTable(const Spline& spline, int order) : taps{} {
    const int k = spline.degree;
    double scale = 1.0;
    for (int j = 0; j < order; ++j) scale *= spline.grid / (spline.hi - spline.lo);
    for (int t = 0; t <= k; ++t)
      for (int p = 0; p + order <= k; ++p) {
        double falling = 1.0;
        for (int j = 0; j < order; ++j) falling *= p + order - j;
        taps[t][p] = static_cast<T>(kCardinalSplines.piece[k][k - t][p + order] * falling * scale);
      }
  }
};

inline std::int64_t cell_count(const Spline& spline) { return spline.grid + 2 * spline.degree + 1; }

// Where the cells are: the position (x - lo) / h + degree is (x - shift) inverse + offset. With
// lo / h a number of type T the shift is zero, and the position is rounded once; else x - lo is
// rounded first, which near lo it need not be. Kernels copy it, because a store through a pointer
// could change what they only refer to, and the compiler would compute it again for every vector.
template <class T>
struct Cells {
  T shift, inverse, offset, degree, count;

  explicit Cells(const Spline& spline)
      : shift(0),
        inverse(static_cast<T>(spline.grid / (spline.hi - spline.lo))),
        offset(static_cast<T>(spline.degree)),
        degree(static_cast<T>(spline.degree)),
        count(static_cast<T>(spline.grid + 2 * spline.degree)) {
    const double exact = spline.degree - spline.lo * static_cast<double>(inverse);
    if (static_cast<double>(static_cast<T>(exact)) == exact) {
      offset = static_cast<T>(exact);
    } else {
      shift = static_cast<T>(spline.lo);
    }
  }
};

template <class T, int L>
struct Located {
  using S = Simd<T, L>;
  typename S::Vec u;       // position in the cell, about [0, 1); NaN where x is not finite
  typename S::Vec poison;  // 0 where x is finite, NaN where it is not
  typename S::IntVec cell;
};

template <class T, int L>
KANDLE_INLINE Located<T, L> locate(typename Simd<T, L>::Vec x, const Cells<T>& cells) {
  using S = Simd<T, L>;
  Located<T, L> at;
  const typename S::Vec from = x - cells.shift, s = from * cells.inverse + cells.offset;
  const typename S::IntVec inside =
      (s >= T(0)) & (s < cells.count);  // false for NaN: no cell is out of bounds
  at.poison = x - x;
  // What is not finite goes to a cell with weights, not to the outer one: its NaN must reach their
  // gradients.
  const typename S::Vec outside =
      at.poison == T(0) ? S::splat(cells.count) : S::splat(cells.degree);
  const typename S::Vec safe = inside ? s : outside;
  at.cell = __builtin_convertvector(safe, typename S::IntVec);
  // Not s - cell: the position in the cell has all its digits, the position s has not. At a knot u
  // may be 1 or a little less than 0, where the cell's polynomials are the neighbour's too.
  const typename S::Vec whole = __builtin_convertvector(at.cell, typename S::Vec);
  at.u = (inside ? from : typename S::Vec{}) * cells.inverse + (cells.offset - whole) + at.poison;
  return at;
}

// The taps of one order at once: out[t] for t = 0 .. degree. K is the degree, or 0 where only the
// run time knows it.
template <class T, int L, int K>
KANDLE_INLINE void evaluate_taps(const TapTable<T>& table, int degree, int order,
                                 const Located<T, L>& at, typename Simd<T, L>::Vec* out) {
  using S = Simd<T, L>;
  const int k = K ? K : std::min(degree, kMaxDegree);
  const int top = std::max(k - order, 0);
  for (int t = 0; t <= k; ++t) {
    typename S::Vec p = S::splat(table.taps[t][top]);
    for (int q = top - 1; q >= 0; --q) p = p * at.u + table.taps[t][q];
    out[t] = p;
  }
}

// SiLU and its derivatives up to the third, R = x s with s the logistic function of x. What is not
// finite becomes NaN before anything is multiplied by it.
template <class T, int L, int Orders>
KANDLE_INLINE void silu_from_logistic(typename Simd<T, L>::Vec x, typename Simd<T, L>::Vec s,
                                      typename Simd<T, L>::Vec* out) {
  using Vec = typename Simd<T, L>::Vec;
  x += x - x;
  out[0] = x * s;
  if constexpr (Orders > 1) {
    const Vec rest = T(1) - s;
    out[1] = out[0] * rest + s;
    if constexpr (Orders > 2) {
      const Vec q = s * rest, w = rest - s, q1 = q * w;  // s', 1 - 2 s and s''
      out[2] = T(2) * q + x * q1;
      if constexpr (Orders > 3) {
        const Vec q2 = q1 * w - T(2) * q * q;  // s'''
        out[3] = T(3) * q1 + x * q2;
      }
    }
  }
}

template <class T, int L, int Orders>
KANDLE_INLINE void evaluate_silu(typename Simd<T, L>::Vec x, typename Simd<T, L>::Vec* out) {
  silu_from_logistic<T, L, Orders>(x, reciprocal<T, L>(T(1) + exp<T, L>(-x)), out);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
