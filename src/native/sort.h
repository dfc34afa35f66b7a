// Samples sorted by cell: the weights of a cell, or the sums of their gradients, then stay in
// registers for all of its samples.
#pragma once

#include <algorithm>
#include <cstdint>

#include "scratch.h"
#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

// Cells up to which a block of 256 samples is sorted: with more, a block is larger, so that a cell
// has several of them.
inline constexpr std::int64_t kFewCells = 32, kSmallBlock = 256, kLargeBlock = 1024;

inline std::int64_t sorted_block(std::int64_t n_cells) {
  return n_cells <= kFewCells ? kSmallBlock : kLargeBlock;
}

// The samples of a block by cell: order[starts[j]] .. order[starts[j + 1] - 1] are those of cell j,
// in their own order.
struct CellOrder {
  std::uint16_t* order;
  std::int32_t* starts;

  // Places that the order of `count` samples takes: what is beyond the last one is overwritten.
  static std::int64_t room(std::int64_t count) { return round_up(count + 32, 32); }
};

// A counting sort. Each quarter of the samples has its own counters, because a counter that one
// sample has just changed makes the next one wait.
inline void count_cells(const std::int32_t* cells, std::int64_t count, std::int64_t n_cells,
                        const CellOrder& out) {
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
    out.starts[j] = place;
    for (int q = 0; q < kParts; ++q) {
      const std::int32_t size = counters[q * n_cells + j];
      counters[q * n_cells + j] = place;
      place += size;
    }
  }
  out.starts[n_cells] = place;
  for (std::int64_t s = 0; s < part; ++s)
    for (int q = 0; q < kParts; ++q)
      out.order[counters[q * n_cells + cells[q * part + s]]++] =
          static_cast<std::uint16_t>(q * part + s);
  for (std::int64_t s = kParts * part; s < count; ++s)
    out.order[counters[(kParts - 1) * n_cells + cells[s]]++] = static_cast<std::uint16_t>(s);
}

#if KANDLE_AVX512

// For every cell, the samples that are in it, 64 at a time: with few cells less than half the time
// of counters, each of which waits for the sample before. Numbers are bytes, of which an
// instruction takes twice as many as of the numbers of more samples.
template <int Parts>
[[gnu::target("avx512vbmi2,avx512bw"), gnu::noinline]]
void compress_cells(const std::int32_t* cells, std::int64_t count, std::int64_t n_cells,
                    const CellOrder& out) {
  constexpr int kPart = 64, kMost = Parts * kPart;
  alignas(64) std::uint8_t keys[kMost], numbers[kMost], order[kMost + kPart];
  for (int s = 0; s < kMost; ++s) numbers[s] = static_cast<std::uint8_t>(s);
  std::fill(keys + count / 16 * 16, keys + kMost, 255);
  std::int64_t s = 0;
  for (; s + 16 <= count; s += 16)
    _mm_store_si128(reinterpret_cast<__m128i*>(keys + s),
                    _mm512_cvtepi32_epi8(_mm512_loadu_si512(cells + s)));
  for (; s < count; ++s) keys[s] = static_cast<std::uint8_t>(cells[s]);
  __m512i key[Parts], number[Parts];
  for (int p = 0; p < Parts; ++p) {
    key[p] = _mm512_load_si512(keys + kPart * p);
    number[p] = _mm512_load_si512(numbers + kPart * p);
  }
  std::int32_t place = 0;
  for (std::int64_t j = 0; j < n_cells; ++j) {
    out.starts[j] = place;
    const __m512i cell = _mm512_set1_epi8(static_cast<char>(j));
#pragma GCC unroll 4
    for (int p = 0; p < Parts; ++p) {
      const __mmask64 here = _mm512_cmpeq_epi8_mask(key[p], cell);
      _mm512_storeu_si512(order + place, _mm512_maskz_compress_epi8(here, number[p]));
      place += __builtin_popcountll(here);
    }
  }
  out.starts[n_cells] = place;
  for (std::int64_t p = 0; p < count; p += 32)
    _mm512_storeu_si512(
        out.order + p,
        _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(order + p))));
}

#endif  // KANDLE_AVX512

// Sorts up to 2^16 samples; `out` has room for them and for n_cells + 1 starts.
inline void sort_cells(const std::int32_t* cells, std::int64_t count, std::int64_t n_cells,
                       const CellOrder& out) {
#if KANDLE_AVX512
  static const bool can_compress = __builtin_cpu_supports("avx512vbmi2");
  if (can_compress && n_cells <= kFewCells) {
    if (count <= kSmallBlock / 2) return compress_cells<2>(cells, count, n_cells, out);
    if (count <= kSmallBlock) return compress_cells<4>(cells, count, n_cells, out);
  }
#endif
  count_cells(cells, count, n_cells, out);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
