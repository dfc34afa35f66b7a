// What both passes of a layer of cubics need to know of a feature's points, one row for each
// number.
#pragma once

#include <cstring>

#include "taylor.h"

namespace kandle {
namespace KANDLE_ISA {

// The position v in the cell, R and, for the backward pass, R', with `pitch` numbers per row.
// Derivatives are in u.
template <class T>
struct PointRows {
  T* v;
  std::int64_t pitch;

  T* residual() const { return v + pitch; }
  T* slope() const { return v + 2 * pitch; }

  // Fills the rows, and the cells, from points x; `count` is rounded up to whole vectors.
  template <bool Slope>
  void fill(const T* x, std::int64_t count, const Cells<T>& cell_grid, bool residuals,
            std::int32_t* cells) const {
    constexpr int L = kLanes<T>;
    using V = Simd<T, L>;
    const Cells<T> grid = cell_grid;  // a store could change what is only referred to
    T *position = v, *value = residual(), *derivative = slope();
    for (std::int64_t s = 0; s < count; s += L) {
      const Tabulated<T, L, Slope ? 2 : 1> at(V::load(x + s), grid, residuals);
      std::memcpy(cells + s, &at.cell, sizeof at.cell);
      V::store(position + s, at.v);
      V::store(value + s, at.residual[0]);
      if constexpr (Slope) V::store(derivative + s, at.residual[1]);
    }
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
