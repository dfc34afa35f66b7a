// Samples sorted by cell: the weights of a cell, or the sums of their gradients, then stay in
// registers for all of its samples.
#pragma once

#include <algorithm>
#include <cstdint>

#include "scratch.h"

namespace kandle {
namespace KANDLE_ISA {

// Stable counting sort of the cells of `count` samples: `order` lists the samples cell by cell,
// `starts` the first place of every cell and the end. Each quarter of the samples has its own
// counters, because a counter that one sample has just changed makes the next one wait.
inline void sort_cells(const std::int32_t* cells, std::int64_t count, std::int64_t n_cells,
                       std::int32_t* starts, std::int32_t* order) {
  constexpr int kParts = 4;
  const std::int64_t part = count / kParts;
  std::int32_t* counters = scratch<std::int32_t, 6>(kParts * n_cells);
  std::fill(counters, counters + kParts * n_cells, 0);
  for (std::int64_t s = 0; s < part; ++s)
    for (int q = 0; q < kParts; ++q) ++counters[q * n_cells + cells[q * part + s]];
  for (std::int64_t s = kParts * part; s < count; ++s)
    ++counters[(kParts - 1) * n_cells + cells[s]];
  std::int32_t place = 0;
  for (std::int64_t j = 0; j < n_cells; ++j) {
    starts[j] = place;
    for (int q = 0; q < kParts; ++q) {
      const std::int32_t size = counters[q * n_cells + j];
      counters[q * n_cells + j] = place;
      place += size;
    }
  }
  starts[n_cells] = place;
  for (std::int64_t s = 0; s < part; ++s)
    for (int q = 0; q < kParts; ++q)
      order[counters[q * n_cells + cells[q * part + s]]++] =
          static_cast<std::int32_t>(q * part + s);
  for (std::int64_t s = kParts * part; s < count; ++s)
    order[counters[(kParts - 1) * n_cells + cells[s]]++] = static_cast<std::int32_t>(s);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
