// The samples of a block sorted by cell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

#if KANDLE_AVX512

// A sort of up to 256 samples: order[starts[j]] .. order[starts[j + 1] - 1] are those of cell j, in
// their own order.
struct SortedCells {
  static constexpr std::int64_t kMostSamples = 256, kMostCells = 64;

  // What is beyond the last sample is overwritten.
  std::uint8_t order[kMostSamples + 64];
  std::int32_t starts[kMostCells + 1];

  void sort(const std::int32_t* cells, std::int64_t count, std::int64_t n_cells) {
#if defined(__AVX512VBMI2__)
    compress(cells, count, n_cells);
#else
    static const bool can_compress = __builtin_cpu_supports("avx512vbmi2");
    can_compress ? compress(cells, count, n_cells) : scatter(cells, count, n_cells);
#endif
  }

  // A counting sort.
  void scatter(const std::int32_t* cells, std::int64_t count, std::int64_t n_cells) {
    std::int32_t places[kMostCells + 1] = {};
    for (std::int64_t s = 0; s < count; ++s) ++places[cells[s]];
    std::int32_t place = 0;
    for (std::int64_t j = 0; j < n_cells; ++j) {
      starts[j] = place;
      place += places[j];
      places[j] = starts[j];
    }
    starts[n_cells] = place;
    for (std::int64_t s = 0; s < count; ++s)
      order[places[cells[s]]++] = static_cast<std::uint8_t>(s);
  }

  // For every cell, the samples that are in it, 64 at a time: less than half the time of counters,
  // each of which waits for the sample before.
  [[gnu::target("avx512vbmi2,avx512bw"), gnu::noinline]]
  void compress(const std::int32_t* cells, std::int64_t count, std::int64_t n_cells) {
    constexpr int kParts = kMostSamples / 64;
    alignas(64) std::uint8_t keys[kMostSamples], numbers[kMostSamples];
    for (int s = 0; s < kMostSamples; ++s) numbers[s] = static_cast<std::uint8_t>(s);
    std::fill(keys + count / 16 * 16, keys + kMostSamples, 255);
    std::int64_t s = 0;
    for (; s + 16 <= count; s += 16)
      _mm_store_si128(reinterpret_cast<__m128i*>(keys + s),
                      _mm512_cvtepi32_epi8(_mm512_loadu_si512(cells + s)));
    for (; s < count; ++s) keys[s] = static_cast<std::uint8_t>(cells[s]);
    __m512i key[kParts], number[kParts];
    for (int p = 0; p < kParts; ++p) {
      key[p] = _mm512_load_si512(keys + 64 * p);
      number[p] = _mm512_load_si512(numbers + 64 * p);
    }
    std::int32_t place = 0;
    for (std::int64_t j = 0; j < n_cells; ++j) {
      starts[j] = place;
      const __m512i cell = _mm512_set1_epi8(static_cast<char>(j));
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) {
        const __mmask64 here = _mm512_cmpeq_epi8_mask(key[p], cell);
        _mm512_storeu_si512(order + place, _mm512_maskz_compress_epi8(here, number[p]));
        place += __builtin_popcountll(here);
      }
    }
    starts[n_cells] = place;
  }
};

#endif  // KANDLE_AVX512

}  // namespace KANDLE_ISA
}  // namespace kandle
