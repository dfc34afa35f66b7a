// What a layer of cubics needs to know of a block of points: their cells, the powers of their
// positions, and the derivatives of the residual function, one row of a table for each.
#pragma once

#include "taylor.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T, int D, int S>
struct PointTable {
  static constexpr int C = 1 + D + S;
  static constexpr int kOrders = 1 + (D > 0) + (S > 0);  // orders of phi that the forward pass uses
  // Rows: v, v^2/2, v^3/6, then R and its derivatives, then the other components of the point.
  static constexpr int kResidual = 3, kComponents = kResidual + kOrders + 1,
                       kTable = kComponents + C - 1;
  static constexpr int L = kLanes<T>;
  using Tab = Simd<T, L>;

  // Fills a table with rows of B from x[c][s], the components of `count` points.
  template <int Orders, std::int64_t B>
  static void tabulate(const T* x, std::int64_t count, const Cells<T>& cell_grid, bool residuals,
                       T* table, std::int32_t* cells) {
    const Cells<T> grid = cell_grid;
    for (std::int64_t s = 0; s < count; s += L) {
      const Tabulated<T, L, Orders> at(Tab::load(x + s), grid, residuals);
      std::memcpy(cells + s, &at.cell, sizeof at.cell);
      Tab::store(table + s, at.v);
      if constexpr (C > 1 || Orders > 1) {
        Tab::store(table + B + s, at.half);
        Tab::store(table + 2 * B + s, at.sixth);
      }
      for (int order = 0; order < Orders; ++order)
        Tab::store(table + (kResidual + order) * B + s, at.residual[order]);
      for (int c = 1; c < C; ++c)
        Tab::store(table + (kComponents + c - 1) * B + s, grid.inverse * Tab::load(x + c * B + s));
    }
  }

  // The point, or with a vector type V the points, at one place of a table.
  template <class V, std::int64_t B>
  struct Point {
    using Value = typename V::Vec;
    const T* at;
    Value v() const { return V::load(at); }
    Value half() const { return V::load(at + B); }
    Value sixth() const { return V::load(at + 2 * B); }
    Value residual(int order) const { return V::load(at + (kResidual + order) * B); }
    Value along(int d) const { return V::load(at + (kComponents + d) * B); }
    Value bent(int d) const { return V::load(at + (kComponents + D + d) * B); }
  };
};

}  // namespace KANDLE_ISA
}  // namespace kandle
