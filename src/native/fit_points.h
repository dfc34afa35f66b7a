// The points of one block of samples of a layer of cubics, tabulated once for both passes.
#pragma once

#include <cstring>

#include "taylor.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T>
class FitPoints {
 public:
  static constexpr int L = kLanes<T>;
  static constexpr std::int64_t kBlock = 256;
  // The rows of a feature's table: the position v, then R and R'.
  enum { kPosition, kResidual, kSlope, kTable };

  explicit FitPoints(const JetArgs<T>& a) : n_in_(a.n_in), residual_(a.residual), grid_(a.spline) {}

  // Numbers that the tables take, a multiple of L.
  std::int64_t memory() const { return n_in_ * (kTable + 1) * kBlock; }
  void place(T* memory) {
    tables_ = memory;
    cells_ = reinterpret_cast<std::int32_t*>(memory + n_in_ * kTable * kBlock);
  }

  T* table(std::int64_t i, int row) const { return tables_ + (i * kTable + row) * kBlock; }
  std::int32_t* cells(std::int64_t i) const { return cells_ + i * kBlock; }

  // The points x[i][s] of feature i; `count` is a multiple of L.
  void tabulate(std::int64_t i, const T* x, std::int64_t count) const {
    using V = Simd<T, L>;
    const Cells<T> grid = grid_;
    const bool residual = residual_;
    T *v = table(i, kPosition), *value = table(i, kResidual), *slope = table(i, kSlope);
    std::int32_t* cell = cells(i);
    for (std::int64_t s = 0; s < count; s += L) {
      const Tabulated<T, L, 2> at(V::load(x + i * kBlock + s), grid, residual);
      std::memcpy(cell + s, &at.cell, sizeof at.cell);
      V::store(v + s, at.v);
      V::store(value + s, at.residual[0]);
      V::store(slope + s, at.residual[1]);
    }
  }

 private:
  const std::int64_t n_in_;
  const bool residual_;
  const Cells<T> grid_;
  T* tables_;
  std::int32_t* cells_;
};

}  // namespace KANDLE_ISA
}  // namespace kandle
