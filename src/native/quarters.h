// Rows of four numbers, one for each lane, turned into four vectors.
#pragma once

#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

namespace detail {

// Element i of the result is element (i mod 4) of `pattern`, in the quarter that i is in; 4 and
// more stand for elements of the second vector.
template <class T, int L, int P0, int P1, int P2, int P3, int... I>
inline typename Simd<T, L>::Vec shuffle_quarters(typename Simd<T, L>::Vec a,
                                                 typename Simd<T, L>::Vec b,
                                                 std::integer_sequence<int, I...>) {
  constexpr int pattern[4] = {P0, P1, P2, P3};
  return __builtin_shufflevector(
      a, b, (I / 4 * 4 + pattern[I % 4] % 4 + (pattern[I % 4] < 4 ? 0 : L))...);
}

// Turns the squares of four that four vectors consist of.
template <class T, int L>
inline void turn_quarters(typename Simd<T, L>::Vec* v) {
  constexpr auto lanes = std::make_integer_sequence<int, L>{};
  const auto t0 = shuffle_quarters<T, L, 0, 4, 1, 5>(v[0], v[1], lanes);
  const auto t1 = shuffle_quarters<T, L, 2, 6, 3, 7>(v[0], v[1], lanes);
  const auto t2 = shuffle_quarters<T, L, 0, 4, 1, 5>(v[2], v[3], lanes);
  const auto t3 = shuffle_quarters<T, L, 2, 6, 3, 7>(v[2], v[3], lanes);
  v[0] = shuffle_quarters<T, L, 0, 1, 4, 5>(t0, t2, lanes);
  v[1] = shuffle_quarters<T, L, 2, 3, 6, 7>(t0, t2, lanes);
  v[2] = shuffle_quarters<T, L, 0, 1, 4, 5>(t1, t3, lanes);
  v[3] = shuffle_quarters<T, L, 2, 3, 6, 7>(t1, t3, lanes);
}

template <class T, int L, int... I>
inline typename Simd<T, L>::Vec join(typename Simd<T, L / 2>::Vec a, typename Simd<T, L / 2>::Vec b,
                                     std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}

// The rows of lanes first, first + 4, first + 8, .. as one vector.
template <class T, int L, class Row>
KANDLE_INLINE typename Simd<T, L>::Vec every_fourth_row(const Row& row, int first) {
  if constexpr (L == 4) {
    return Simd<T, 4>::load(row(first));
  } else {
    return join<T, L>(every_fourth_row<T, L / 2>(row, first),
                      every_fourth_row<T, L / 2>(row, first + L / 2),
                      std::make_integer_sequence<int, L>{});
  }
}

template <class T, int L, int Quarter>
inline typename Simd<T, 4>::Vec quarter(typename Simd<T, L>::Vec v) {
  constexpr int first = 4 * Quarter;
  return __builtin_shufflevector(v, v, first, first + 1, first + 2, first + 3);
}

}  // namespace detail

// A 4 x L transpose: lane l of out[t] is row(l)[t].
template <class T, int L, class Row>
KANDLE_INLINE void gather_rows(const Row& row, typename Simd<T, L>::Vec* out) {
  if constexpr (L >= 4) {
    for (int j = 0; j < 4; ++j) out[j] = detail::every_fourth_row<T, L>(row, j);
    detail::turn_quarters<T, L>(out);
  } else {
    for (int l = 0; l < L; ++l)
      for (int t = 0; t < 4; ++t) out[t][l] = row(l)[t];
  }
}

}  // namespace KANDLE_ISA
}  // namespace kandle
