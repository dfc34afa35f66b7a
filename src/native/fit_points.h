// The points of one block of samples of a layer of cubics, tabulated once for both passes.
#pragma once

#include "point_rows.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T>
class FitPoints {
 public:
  FitPoints(const JetArgs<T>& a, std::int64_t block)
      : n_in_(a.n_in), block_(block), residual_(a.residual), grid_(a.spline) {}

  // Numbers that the tables take, a multiple of a vector.
  std::int64_t memory() const { return n_in_ * kRowCount * block_; }
  void place(T* memory) { rows_ = memory; }

  PointRows<T> rows(std::int64_t i) const { return {rows_ + i * kRowCount * block_, block_}; }

  // The points x[i][s] of feature i, and their cells; `count` is a multiple of a vector.
  void tabulate(std::int64_t i, const T* x, std::int64_t count, std::int32_t* cells) const {
    rows(i).template fill<true>(x + i * block_, count, grid_, residual_, cells);
  }

  // Of a gradient in u, to get that in x.
  T inverse() const { return grid_.inverse; }

 private:
  static constexpr std::int64_t kRowCount = 3;

  const std::int64_t n_in_, block_;  // samples of a block, at most
  const bool residual_;
  const Cells<T> grid_;
  T* rows_;
};

}  // namespace KANDLE_ISA
}  // namespace kandle
