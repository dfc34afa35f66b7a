// The two passes of one feature of a layer of cubics, over samples that are sorted by cell.
//
// Lanes run over outputs. A feature has rows of outputs: that of r, then those of c b_m between
// rows of zeros (weights.h), so that cell j uses the four from row 1 + j on. Within a cell their
// sum is one polynomial (taylor.h), phi = d0 + v d1 + v^2 d2 + v^3 d3. Its coefficients stay in
// registers for all samples of the cell, as do the moments that the gradients of the rows are made
// of.
#pragma once

#include "point_rows.h"
#include "sort.h"

namespace kandle {
namespace KANDLE_ISA {

// The coefficients of a cell from its four rows, kCubic times w with the factors 1/2 and 1/6. The
// columns of kCubic are even or odd. Rounded, so that a value has the same bits wherever the
// coefficients come from.
template <class T, class Vec>
KANDLE_INLINE void cell_polynomial(const Vec* w, Vec* d) {
  const Vec outer = w[0] + w[3], inner = w[1] + w[2];
  const Vec outer_odd = w[3] - w[0], inner_odd = w[2] - w[1];
  d[0] = rounded(T(1.0 / 48) * (outer + T(23) * inner));
  d[1] = rounded(T(1.0 / 8) * (outer_odd + T(5) * inner_odd));
  d[2] = rounded(T(1.0 / 4) * (outer - inner));
  d[3] = rounded(T(1.0 / 6) * (outer_odd - T(3) * inner_odd));
}

// Adds phi(v) + r R to an output. All evaluations of a layer do it in this order, so that a row has
// the same bits alone and among others.
template <class Vec, class Number>
KANDLE_INLINE Vec add_polynomial(Vec y, const Vec* d, Number v, Vec r, Number R) {
  return ((d[3] * v + d[2]) * v + d[1]) * v + (r * R + (y + d[0]));
}

// One feature at the samples of a block: the samples by cell, and the points in their own order.
template <class T>
struct SortedPoints {
  const std::uint16_t* order;
  const std::int32_t* starts;
  std::int64_t n_cells;
  PointRows<T> rows;

  // Calls visit(cell, first, last) for every cell with samples.
  template <class Visit>
  KANDLE_INLINE void for_cells(const Visit& visit) const {
    for (std::int64_t j = 0; j < n_cells; ++j)
      if (starts[j] < starts[j + 1]) visit(j, order + starts[j], order + starts[j + 1]);
  }
};

// Adds a feature with the rows w, `pitch` apart, to C vectors of outputs of every sample; rows of y
// are `y_pitch` apart. A function of its own, as the next one: in a larger one the loop's pointers
// would not stay in registers.
template <class T, int L, int C>
[[gnu::noinline]] void add_sorted(const SortedPoints<T>& points, const T* w, std::int64_t pitch,
                                  T* y, std::int64_t y_pitch) {
  using V = Simd<T, L>;
  using Vec = typename V::Vec;
  const T *position = points.rows.v, *residual = points.rows.residual();
  Vec r[C];
  for (int c = 0; c < C; ++c) r[c] = hold(V::load(w + c * L));
  points.for_cells([&](std::int64_t cell, const std::uint16_t* next,
                       const std::uint16_t* end) __attribute__((always_inline)) {
    Vec d[C][4];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      Vec weight[4];
      for (int t = 0; t < 4; ++t) weight[t] = V::load(w + (1 + cell + t) * pitch + c * L);
      cell_polynomial<T>(weight, d[c]);
    }
    for (; next != end; ++next) {
      const std::int64_t s = *next;
      T* out = y + s * y_pitch;
      const Vec v = hold(V::splat(position[s])), R = hold(V::splat(residual[s]));
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        V::store(out + c * L, add_polynomial(V::load(out + c * L), d[c], v, r[c], R));
    }
  });
}

// The backward pass of one feature.
//
// Its gradients are made of the moments g, v g, v^2 g and v^3 g of every cell, and the same factors
// serve phi' = d1 + v (2 d2) + v^2 (3 d3): eight multiply-adds, where the four cubics and their
// slopes would need eleven.
template <class T, int L>
class SortedGradients {
 public:
  // The rows of the feature and their gradients are `pitch` apart.
  SortedGradients(const SortedPoints<T>& points, std::int64_t count, std::int64_t pitch)
      : points_(points),
        pitch_(pitch),
        square_(scratch<T, 8>(2 * round_up(count, L))),
        cube_(square_ + round_up(count, L)) {
    for (std::int64_t s = 0; s < count; s += L) {
      const Vec v = V::load(points.rows.v + s), square = v * v;
      V::store(square_ + s, square);
      V::store(cube_ + s, square * v);
    }
  }

  // Adds to dw for C vectors of outputs, whose gradients are rows of g, C vectors apart; with
  // `fresh`, stores there. Nothing else is added to a sum before it is complete. With Inputs the
  // gradient of a point in u is the sum of the lanes of lanes[s], to which outputs are added after
  // the First.
  template <int C, bool Weights, bool Inputs, bool First>
  [[gnu::noinline]] void add(const T* w, const T* g, bool fresh, T* dw, T* lanes) const;

 private:
  using V = Simd<T, L>;
  using Vec = typename V::Vec;

  const SortedPoints<T> points_;
  const std::int64_t pitch_;
  T *square_, *cube_;  // v^2 and v^3
};

template <class T, int L>
template <int C, bool Weights, bool Inputs, bool First>
void SortedGradients<T, L>::add(const T* w, const T* g, bool fresh, T* dw, T* lanes) const {
  const std::int64_t pitch = pitch_;
  const T *position = points_.rows.v, *residual = points_.rows.residual(),
          *slope = points_.rows.slope(), *squares = square_, *cubes = cube_;
  Vec r[C], residual_sums[C];
  for (int c = 0; c < C; ++c) {
    if constexpr (Weights) residual_sums[c] = Vec{};
    if constexpr (Inputs) r[c] = hold(V::load(w + c * L));
  }
  Vec pending[C][kCubicDegree] = {};  // of the rows that the next cell has in common with this one
  const auto store = [&](std::int64_t row, int c, Vec value) __attribute__((always_inline)) {
    T* at = dw + row * pitch + c * L;
    V::store(at, fresh ? value : V::load(at) + value);
  };
  for (std::int64_t cell = 0; cell < points_.n_cells; ++cell) {
    const std::uint16_t *next = points_.order + points_.starts[cell],
                        *end = points_.order + points_.starts[cell + 1];
    if (next == end) {
      for (int c = 0; Weights && c < C; ++c) {
        store(1 + cell, c, pending[c][0]);
        pending[c][0] = pending[c][1], pending[c][1] = pending[c][2], pending[c][2] = Vec{};
      }
      continue;
    }
    const std::int64_t first = (1 + cell) * pitch;
    Vec sum[C][4], d[C][4];
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      for (int q = 0; q < 4; ++q) sum[c][q] = Vec{};
      if constexpr (Inputs) {
        Vec weight[4];
        for (int t = 0; t < 4; ++t) weight[t] = V::load(w + first + t * pitch + c * L);
        cell_polynomial<T>(weight, d[c]);
        d[c][2] = hold(d[c][2] + d[c][2]);
        d[c][3] = hold(T(3) * d[c][3]);
      }
    }
    for (; next != end; ++next) {
      const std::int64_t s = *next;
      const Vec v1 = hold(V::splat(position[s])), v2 = hold(V::splat(squares[s])),
                v3 = hold(V::splat(cubes[s])), R = hold(V::splat(residual[s]));
      Vec lane_sums{};
      if constexpr (Inputs && !First) lane_sums = V::load(lanes + s * L);
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) {
        const Vec gradient = hold(V::load(g + s * (C * L) + c * L));
        if constexpr (Weights) {
          residual_sums[c] += gradient * R;
          sum[c][0] += gradient;
          sum[c][1] += gradient * v1;
          sum[c][2] += gradient * v2;
          sum[c][3] += gradient * v3;
        }
        if constexpr (Inputs) {
          const Vec phi = d[c][3] * v2 + (d[c][2] * v1 + (r[c] * slope[s] + d[c][1]));
          lane_sums = First && c == 0 ? gradient * phi : lane_sums + gradient * phi;
        }
      }
      if constexpr (Inputs) V::store(lanes + s * L, lane_sums);
    }
    // The transpose of `cell_polynomial`.
#pragma GCC unroll 2
    for (int c = 0; Weights && c < C; ++c) {
      const Vec* m = sum[c];
      const Vec outer = T(1.0 / 48) * m[0] + T(1.0 / 4) * m[2],
                inner = T(23.0 / 48) * m[0] - T(1.0 / 4) * m[2],
                outer_odd = T(1.0 / 8) * m[1] + T(1.0 / 6) * m[3],
                inner_odd = T(5.0 / 8) * m[1] - T(1.0 / 2) * m[3];
      store(1 + cell, c, pending[c][0] + (outer - outer_odd));
      pending[c][0] = pending[c][1] + (inner - inner_odd);
      pending[c][1] = pending[c][2] + (inner + inner_odd);
      pending[c][2] = outer + outer_odd;
    }
  }
  for (int c = 0; Weights && c < C; ++c)
    for (int t = 0; t < kCubicDegree; ++t) store(1 + points_.n_cells + t, c, pending[c][t]);
  for (int c = 0; Weights && c < C; ++c) store(0, c, residual_sums[c]);
}

// The gradients of a feature's points from their lanes, stored in dx or added to it.
template <class T, int L>
inline void sum_lanes(const T* lanes, std::int64_t count, T scale, bool add, T* dx) {
  using V = Simd<T, L>;
  for (std::int64_t s = 0; s < count; s += L) {
    typename V::Vec sum = scale * lane_sums<T, L>(lanes + s * L);
    if (add) sum += V::load(dx + s);
    V::store(dx + s, sum);
  }
}

}  // namespace KANDLE_ISA
}  // namespace kandle
