// Fixed-width lanes on the compiler's vector extensions: loads, stores, exp, expm1, lane sums.
//
// Included inside the instruction set's own namespace, so that one function compiled for two
// instruction sets never has one name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#ifndef KANDLE_VECTOR_BYTES
#define KANDLE_VECTOR_BYTES 16
#endif

// What runs for every vector: a call would spill all registers, and the compiler, which weighs the
// size of a whole translation unit, does call some of these.
#define KANDLE_INLINE [[gnu::always_inline]] inline

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__) && KANDLE_VECTOR_BYTES == 64
#define KANDLE_AVX512 1
#else
#define KANDLE_AVX512 0
#endif

namespace kandle {
namespace KANDLE_ISA {

template <class T>
inline constexpr int kLanes = KANDLE_VECTOR_BYTES / static_cast<int>(sizeof(T));

// Vectors of registers that a loop may use; AVX-512 doubled their number too.
inline constexpr int kRegisters = KANDLE_VECTOR_BYTES >= 64 ? 32 : 16;

template <class T, int L>
struct Simd {
  typedef T Vec __attribute__((vector_size(L * sizeof(T))));
  typedef T Unaligned __attribute__((vector_size(L * sizeof(T)), aligned(sizeof(T)), may_alias));
  using Int = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Int IntVec __attribute__((vector_size(L * sizeof(T))));
  typedef std::int32_t Index __attribute__((vector_size(L * sizeof(std::int32_t))));

  static Vec load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(T* p, Vec v) { *reinterpret_cast<Unaligned*>(p) = v; }
  // Minus zero, because plus zero is an operation that the compiler must keep: it changes -0.
  static Vec splat(T value) { return value - Vec{}; }
};

// Keeps in a register what is used several times: with 32 registers there is room, and the compiler
// would load it with every use.
template <class Vec>
KANDLE_INLINE Vec hold(Vec value) {
#if KANDLE_AVX512
  asm("" : "+v"(value));
#endif
  return value;
}

// A value as it is rounded now: the compiler does not contract what made it with what uses it.
template <class Vec>
KANDLE_INLINE Vec rounded(Vec value) {
#if KANDLE_AVX512
  asm("" : "+v"(value));
#elif defined(__SSE2__)
  asm("" : "+x"(value));
#elif defined(__aarch64__)
  asm("" : "+w"(value));
#else
  asm("" : "+m"(value));
#endif
  return value;
}

// A row of L numbers that belong together; one number is no vector, because the compiler contracts
// products and sums of numbers but not of vectors of one lane.
template <class T, int L>
struct Row : Simd<T, L> {};

template <class T>
struct Row<T, 1> {
  using Vec = T;
  static T load(const T* p) { return *p; }
  static void store(T* p, T v) { *p = v; }
};

namespace detail {

// x between -bound and bound. NaN stays NaN: the instructions return their second operand if one of
// the two is NaN. Of a comparison and a choice the compiler would make two instructions.
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec clamp(typename Simd<T, L>::Vec x, T bound) {
  using Vec = typename Simd<T, L>::Vec;
  const Vec top = Simd<T, L>::splat(bound), bottom = Simd<T, L>::splat(-bound);
#if KANDLE_AVX512
  if constexpr (sizeof(Vec) == 64 && sizeof(T) == 4)
    return (Vec)_mm512_max_ps((__m512)bottom, _mm512_min_ps((__m512)top, (__m512)x));
  if constexpr (sizeof(Vec) == 64 && sizeof(T) == 8)
    return (Vec)_mm512_max_pd((__m512d)bottom, _mm512_min_pd((__m512d)top, (__m512d)x));
#elif defined(__AVX__)
  if constexpr (sizeof(Vec) == 32 && sizeof(T) == 4)
    return (Vec)_mm256_max_ps((__m256)bottom, _mm256_min_ps((__m256)top, (__m256)x));
  if constexpr (sizeof(Vec) == 32 && sizeof(T) == 8)
    return (Vec)_mm256_max_pd((__m256d)bottom, _mm256_min_pd((__m256d)top, (__m256d)x));
#endif
  x = x > top ? top : x;
  return x < bottom ? bottom : x;
}

// exp(x) = 2^n e^f with |f| <= ln(2)/2, for x clamped to the range of normal results or a smaller
// one.
template <class T, int L>
struct Reduced {
  typename Simd<T, L>::Vec f;
  typename Simd<T, L>::IntVec exponent;  // n, where a number's exponent is
};

template <class T, int L>
KANDLE_INLINE Reduced<T, L> reduce_exponent(typename Simd<T, L>::Vec x,
                                            T bound = sizeof(T) == 4 ? T(87) : T(708)) {
  using S = Simd<T, L>;
  using Vec = typename S::Vec;
  constexpr bool single = sizeof(T) == 4;
  x = clamp<T, L>(x, bound);
  // Adding 1.5 * 2^(mantissa bits) rounds to the nearest integer and leaves it in the low bits.
  constexpr T magic = single ? T(12582912.0) : T(6755399441055744.0);
  const Vec shifted = x * T(1.44269504088896340736) + magic;
  const Vec whole = shifted - magic;
  Reduced<T, L> r;
  r.f = x - whole * (single ? T(0.693359375) : T(6.93147180369123816490e-01));
  r.f = r.f - whole * (single ? T(-2.12194440e-4) : T(1.90821492927058770002e-10));
  std::memcpy(&r.exponent, &shifted, sizeof r.exponent);
  r.exponent <<= single ? 23 : 52;
  return r;
}

// Taylor's series of (e^f - 1 - ... ) / f^From on |f| <= ln(2)/2 to the precision of T.
template <class T, int L, int From>
KANDLE_INLINE typename Simd<T, L>::Vec exp_series(typename Simd<T, L>::Vec f) {
  constexpr int terms = sizeof(T) == 4 ? 7 : 13;
  constexpr T inverse_factorial[] = {T(1),
                                     T(1),
                                     T(1.0 / 2),
                                     T(1.0 / 6),
                                     T(1.0 / 24),
                                     T(1.0 / 120),
                                     T(1.0 / 720),
                                     T(1.0 / 5040),
                                     T(1.0 / 40320),
                                     T(1.0 / 362880),
                                     T(1.0 / 3628800),
                                     T(1.0 / 39916800),
                                     T(1.0 / 479001600),
                                     T(1.0 / 6227020800.0)};
  typename Simd<T, L>::Vec p = Simd<T, L>::splat(inverse_factorial[terms]);
#pragma GCC unroll 16
  for (int i = terms - 1; i >= From; --i) p = p * f + inverse_factorial[i];
  return p;
}

// e^f on |f| <= ln(2)/2 by the polynomial of least relative error, 2e-9 in single and 3e-18 in
// double precision, with one and two terms less than Taylor's.
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec exp_polynomial(typename Simd<T, L>::Vec f) {
  constexpr bool single = sizeof(T) == 4;
  constexpr int degree = single ? 6 : 11;
  constexpr double coefficients[2][12] = {
      {1.00000000055460774, 1.00000003634472107, 0.499999920750887305, 0.166664200721253165,
       0.0416682261892944906, 0.00837482405058938231, 0.00138368357424753056},
      {0.999999999999999997, 1.00000000000000003, 0.50000000000000177, 0.166666666666661682,
       0.041666666666492629, 0.0083333333335594518, 0.00138888889512612042, 0.000198412694324344383,
       0.0000248014864812834982, 2.75576226520244885e-6, 2.76323082244525444e-7,
       2.49942933457304636e-8}};
  typename Simd<T, L>::Vec p = Simd<T, L>::splat(T(coefficients[!single][degree]));
#pragma GCC unroll 16
  for (int i = degree - 1; i >= 0; --i) p = p * f + T(coefficients[!single][i]);
  return p;
}

// p 2^n for a normal p.
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec scale_exponent(typename Simd<T, L>::Vec p,
                                                      typename Simd<T, L>::IntVec exponent) {
  typename Simd<T, L>::IntVec bits;
  std::memcpy(&bits, &p, sizeof bits);
  bits += exponent;
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

}  // namespace detail

// exp(x) within two units in the last place; the argument is clamped to the range of normal
// results.
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec exp(typename Simd<T, L>::Vec x) {
  const detail::Reduced<T, L> r = detail::reduce_exponent<T, L>(x);
  return detail::scale_exponent<T, L>(detail::exp_polynomial<T, L>(r.f), r.exponent);
}

// 2^x, zero where it is less than a normal number; x is at most zero, and finite or NaN.
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec exp2(typename Simd<T, L>::Vec x) {
  using Vec = typename Simd<T, L>::Vec;
  constexpr T ln2 = T(0.693147180559945309417);
#if KANDLE_AVX512
  // Rounds and scales in one instruction each; what underflows becomes zero in steps.
  if constexpr (sizeof(Vec) == 64 && sizeof(T) == 4) {
    const Vec whole = (Vec)_mm512_roundscale_ps((__m512)x, 0);
    return (Vec)_mm512_scalef_ps((__m512)detail::exp_polynomial<T, L>((x - whole) * ln2),
                                 (__m512)whole);
  } else if constexpr (sizeof(Vec) == 64) {
    const Vec whole = (Vec)_mm512_roundscale_pd((__m512d)x, 0);
    return (Vec)_mm512_scalef_pd((__m512d)detail::exp_polynomial<T, L>((x - whole) * ln2),
                                 (__m512d)whole);
  }
#endif
  const Vec value = exp<T, L>(x * ln2);
  return x < (sizeof(T) == 4 ? T(-125) : T(-1021)) ? Vec{} : value;
}

// exp(x) - 1, to the last places near zero too.
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec expm1(typename Simd<T, L>::Vec x) {
  const detail::Reduced<T, L> r = detail::reduce_exponent<T, L>(x);
  const auto p = detail::exp_series<T, L, 1>(r.f) * r.f;
  const auto scale = detail::scale_exponent<T, L>(Simd<T, L>::splat(T(1)), r.exponent);
  return scale * p + (scale - T(1));
}

// 1 / x for a normal x with a normal reciprocal, within one unit in the last place. One step of
// Newton's method from AVX-512's estimate takes a third of the time of a division.
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec reciprocal(typename Simd<T, L>::Vec x) {
#if KANDLE_AVX512
  if constexpr (sizeof(T) == 4 && L == 16) {
    const typename Simd<T, L>::Vec estimate = _mm512_rcp14_ps(x);
    return estimate + estimate * (T(1) - x * estimate);
  }
#endif
  return T(1) / x;
}

namespace detail {

template <class T, int L, int H, int... I>
KANDLE_INLINE typename Simd<T, L>::Vec fold(typename Simd<T, L>::Vec a, typename Simd<T, L>::Vec b,
                                            std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, ((I & H) ? L + I : I)...) +
         __builtin_shufflevector(a, b, ((I & H) ? L + (I ^ H) : (I ^ H))...);
}

template <class T, int L, int H>
KANDLE_INLINE void fold_all(typename Simd<T, L>::Vec* q) {
  if constexpr (H < L) {
    for (int j = 0; j < L / (2 * H); ++j)
      q[j] = fold<T, L, H>(q[2 * j], q[2 * j + 1], std::make_integer_sequence<int, L>{});
    fold_all<T, L, 2 * H>(q);
  }
}

// Swaps bit H of the row number with bit H of the lane number.
template <class T, int L, int H, int... I>
KANDLE_INLINE void exchange(typename Simd<T, L>::Vec* rows, std::integer_sequence<int, I...>) {
#pragma GCC unroll 16
  for (int j = 0; j < L; ++j) {
    if (j & H) continue;
    const auto a = rows[j], b = rows[j + H];
    rows[j] = __builtin_shufflevector(a, b, ((I & H) ? L + (I ^ H) : I)...);
    rows[j + H] = __builtin_shufflevector(a, b, ((I & H) ? L + I : (I ^ H))...);
  }
}

template <class T, int L, int H>
KANDLE_INLINE void exchange_all(typename Simd<T, L>::Vec* rows) {
  if constexpr (H < L) {
    exchange<T, L, H>(rows, std::make_integer_sequence<int, L>{});
    exchange_all<T, L, 2 * H>(rows);
  }
}

}  // namespace detail

// Turns a square: lane l of rows[j] becomes lane j of rows[l].
template <class T, int L>
KANDLE_INLINE void transpose_square(typename Simd<T, L>::Vec* rows) {
  detail::exchange_all<T, L, 1>(rows);
}

// to[j][l] = from[l][j] for an L x L square of two matrices with the given pitches.
template <class T, int L>
KANDLE_INLINE void transpose(const T* from, std::int64_t from_pitch, T* to, std::int64_t to_pitch) {
  typename Simd<T, L>::Vec rows[L];
  for (int j = 0; j < L; ++j) rows[j] = Simd<T, L>::load(from + j * from_pitch);
  transpose_square<T, L>(rows);
  for (int j = 0; j < L; ++j) Simd<T, L>::store(to + j * to_pitch, rows[j]);
}

// Up to L columns of a row-major matrix of `count` rows to rows of their own: to[j][s] =
// from[s][j]. Fewer than L columns are turned in smaller squares.
template <class T, int L>
[[gnu::noinline]] void load_columns(const T* from, std::int64_t from_pitch, std::int64_t count,
                                    std::int64_t columns, T* to, std::int64_t to_pitch) {
  if constexpr (L > 4)
    if (columns < L) {
      const std::int64_t first = std::min<std::int64_t>(L / 2, columns);
      load_columns<T, L / 2>(from, from_pitch, count, first, to, to_pitch);
      if (first < columns)
        load_columns<T, L / 2>(from + first, from_pitch, count, columns - first,
                               to + first * to_pitch, to_pitch);
      return;
    }
  std::int64_t s = 0;
  if (columns == L)
    for (; s + L <= count; s += L)
      transpose<T, L>(from + s * from_pitch, from_pitch, to + s, to_pitch);
  if constexpr (L == 4)
    if (columns == 2 && from_pitch == 2)  // the inputs of many a function
      for (; s + 4 <= count; s += 4) {
        const auto low = Simd<T, 4>::load(from + 2 * s), high = Simd<T, 4>::load(from + 2 * s + 4);
        Simd<T, 4>::store(to + s, __builtin_shufflevector(low, high, 0, 2, 4, 6));
        Simd<T, 4>::store(to + to_pitch + s, __builtin_shufflevector(low, high, 1, 3, 5, 7));
      }
  for (; s < count; ++s)
    for (std::int64_t j = 0; j < columns; ++j) to[j * to_pitch + s] = from[s * from_pitch + j];
}

// The way back: to[s][j] = from[j][s].
template <class T, int L>
[[gnu::noinline]] void store_columns(const T* from, std::int64_t from_pitch, std::int64_t count,
                                     std::int64_t columns, T* to, std::int64_t to_pitch) {
  if constexpr (L > 4)
    if (columns < L) {
      const std::int64_t first = std::min<std::int64_t>(L / 2, columns);
      store_columns<T, L / 2>(from, from_pitch, count, first, to, to_pitch);
      if (first < columns)
        store_columns<T, L / 2>(from + first * from_pitch, from_pitch, count, columns - first,
                                to + first, to_pitch);
      return;
    }
  std::int64_t s = 0;
  if (columns == L)
    for (; s + L <= count; s += L)
      transpose<T, L>(from + s, from_pitch, to + s * to_pitch, to_pitch);
  for (; s < count; ++s)
    for (std::int64_t j = 0; j < columns; ++j) to[s * to_pitch + j] = from[j * from_pitch + s];
}

// The sums of the columns of a row-major matrix.
template <class T, int L>
inline void sum_columns(const T* from, std::int64_t count, std::int64_t columns, T* out) {
  using S = Simd<T, L>;
  std::int64_t o = 0;
  for (; o + L <= columns; o += L) {
    // Four sums a column: shorter chains, and smaller rounding errors.
    typename S::Vec sums[4] = {};
    std::int64_t s = 0;
    for (; s + 4 <= count; s += 4)
      for (int j = 0; j < 4; ++j) sums[j] += S::load(from + (s + j) * columns + o);
    for (int j = 0; s < count; ++s, ++j) sums[j] += S::load(from + s * columns + o);
    S::store(out + o, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
  for (; o < columns; ++o) {
    T sums[4] = {};
    for (std::int64_t s = 0; s < count; ++s) sums[s % 4] += from[s * columns + o];
    out[o] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

// Lane l of the result is the sum of the lanes of q[l].
template <class T, int L>
KANDLE_INLINE typename Simd<T, L>::Vec lane_sums(const T* rows) {
  typename Simd<T, L>::Vec q[L];
  for (int j = 0; j < L; ++j) q[j] = Simd<T, L>::load(rows + j * L);
  detail::fold_all<T, L, 1>(q);
  return q[0];
}

// Calls visit with `count`, 1 .. Most, as a compile-time constant.
template <int Most, class Visit>
[[gnu::always_inline]] inline void with_count(std::int64_t count, const Visit& visit) {
  if constexpr (Most > 1)
    if (count != Most) return with_count<Most - 1>(count, visit);
  visit(std::integral_constant<int, Most>{});
}

}  // namespace KANDLE_ISA
}  // namespace kandle
