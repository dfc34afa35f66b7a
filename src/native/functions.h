// The functions of bases without local support, with their derivatives: all functions of a basis at
// a vector of points at once, by recurrence where there is one.
#pragma once

#include <cmath>

#include "basis.h"
#include "kernel.h"
#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

// tanh(x) to the last places near zero too.
template <class T, int L>
inline typename Simd<T, L>::Vec tanh(typename Simd<T, L>::Vec x) {
  const auto e = expm1<T, L>(x + x);
  return e / (e + T(2));
}

// tanh(x) and the logistic function of x from one exponential and one division.
template <class T, int L>
inline void tanh_and_logistic(typename Simd<T, L>::Vec x, typename Simd<T, L>::Vec& tanh,
                              typename Simd<T, L>::Vec& logistic) {
  using S = Simd<T, L>;
  using Vec = typename S::Vec;
  // Beyond this tanh is 1 to the last place, the logistic function below 1e-12 or above 1 - 1e-12,
  // and (e^x)^3 still finite.
  constexpr T bound = sizeof(T) == 4 ? T(28) : T(230);
  const detail::Reduced<T, L> r = detail::reduce_exponent<T, L>(x, bound);
  const Vec p = detail::exp_series<T, L, 1>(r.f) * r.f;
  const Vec scale = detail::scale_exponent<T, L>(S::splat(T(1)), r.exponent);
  const Vec e = scale * p + scale, less = scale * p + (scale - T(1));  // e^x and e^x - 1
  const Vec first = e + T(1), second = e * e + T(1);
  const Vec inverse = reciprocal<T, L>(first * second);
  tanh = (less * first) * (first * inverse);  // (e^2x - 1) / (e^2x + 1)
  logistic = (e * second) * inverse;
}

// sin(x) and cos(x).
template <class T, int L>
inline void sincos(typename Simd<T, L>::Vec x, typename Simd<T, L>::Vec& sine,
                   typename Simd<T, L>::Vec& cosine) {
  using S = Simd<T, L>;
  using Vec = typename S::Vec;
  using IntVec = typename S::IntVec;
  constexpr bool single = sizeof(T) == 4;
  // x = k pi/2 + f; the parts of pi/2 are short enough for exact products with k up to the bound.
  constexpr T bound = single ? T(8192) : T(1048576);
  constexpr T half_pi[] = {single ? T(0x1.92p+0) : T(0x1.921fb544p+0),
                           single ? T(0x1.fb4p-12) : T(0x1.0b4611a6p-34),
                           single ? T(0x1.4442d18469899p-24) : T(0x1.3198a2e037073p-69)};
  constexpr T magic = single ? T(12582912.0) : T(6755399441055744.0);
  const Vec shifted = x * T(0.63661977236758134308) + magic;
  const Vec whole = shifted - magic;
  Vec f = x - whole * half_pi[0];
  f = f - whole * half_pi[1];
  f = f - whole * half_pi[2];
  // Taylor's series on |f| <= pi/4 to the precision of T.
  constexpr int terms = single ? 5 : 9;
  const Vec square = f * f;
  Vec s = S::splat(T(1)), c = S::splat(T(1));
#pragma GCC unroll 16
  for (int i = terms; i > 0; --i) {
    s = T(1) - s * (square * (T(1) / static_cast<T>((2 * i) * (2 * i + 1))));
    c = T(1) - c * (square * (T(1) / static_cast<T>((2 * i - 1) * (2 * i))));
  }
  s *= f;
  IntVec quadrant;
  std::memcpy(&quadrant, &shifted, sizeof quadrant);
  const IntVec odd = (quadrant & 1) != 0, upper = (quadrant & 2) != 0;
  const Vec a = odd ? c : s, b = odd ? s : c;
  sine = upper ? -a : a;
  cosine = (odd != upper) ? -b : b;
  // Larger arguments one by one, so that no lane depends on its neighbours.
  for (int l = 0; l < L; ++l)
    if (x[l] > bound || x[l] < -bound) sine[l] = std::sin(x[l]), cosine[l] = std::cos(x[l]);
}

// Fills tables of the functions, with SiLU as the last one where a layer has it.
template <class T>
struct Tables {
  static constexpr int L = kLanes<T>;
  using S = Simd<T, L>;
  using Vec = typename S::Vec;

  const Functions functions;
  const bool residual;
  const std::int64_t rows;
  T center, slope;  // z = (x - center) slope
  const T* constants;

  Tables(const Functions& functions, bool residual)
      : functions(functions),
        residual(residual),
        rows(functions.size() + residual),
        center(static_cast<T>(0.5 * (functions.lo + functions.hi))),
        slope(static_cast<T>(2.0 / (functions.hi - functions.lo))) {}

  // Where the constants of the functions are kept, two numbers for each.
  void place(T* values) {
    constants = values;
    const std::int64_t count = functions.count;
    if (functions.family == Family::kLegendre) {
      for (std::int64_t n = 0; n < count; ++n) {
        values[2 * n] = static_cast<T>((2.0 * n + 1) / (n + 1.0));
        values[2 * n + 1] = static_cast<T>(n / (n + 1.0));
      }
    } else if (functions.family == Family::kGaussian) {
      const double step = (functions.hi - functions.lo) / std::max<double>(count - 1.0, 1.0);
      for (std::int64_t m = 0; m < count; ++m)
        values[m] = static_cast<T>(m + 1 == count ? functions.hi : functions.lo + m * step);
    }
  }

  // out[(order rows + row) pitch + s] for the first `Orders` derivatives, the value among them, at
  // `samples` points, a multiple of L.
  template <int Orders>
  void fill(const T* x, std::int64_t samples, std::int64_t pitch, T* out) const {
    switch (functions.family) {
      case Family::kChebyshev:
        if (shared_exponential()) return polynomials<Orders, true, true>(x, samples, pitch, out);
        polynomials<Orders, true, false>(x, samples, pitch, out);
        break;
      case Family::kLegendre:
        if (shared_exponential()) return polynomials<Orders, false, true>(x, samples, pitch, out);
        polynomials<Orders, false, false>(x, samples, pitch, out);
        break;
      case Family::kFourier:
        waves<Orders>(x, samples, pitch, out);
        break;
      case Family::kGaussian:
        gaussians<Orders>(x, samples, pitch, out);
        break;
    }
    if (!residual) return;
    for (std::int64_t s = 0; s < samples; s += L) {
      Vec silu[Orders];
      evaluate_silu<T, L, Orders>(S::load(x + s), silu);
      for (int k = 0; k < Orders; ++k) S::store(out + (k * rows + rows - 1) * pitch + s, silu[k]);
    }
  }

 protected:
  // Whether tanh and SiLU are of the same number.
  bool shared_exponential() const {
    return residual && functions.tanh && center == T(0) && slope == T(1);
  }

  // Taylor coefficients of u(x) from u itself, for tanh.
  template <int Orders>
  [[gnu::always_inline]] void differentiate_tanh(Vec* u) const {
    if constexpr (Orders > 1) u[1] = (T(1) - u[0] * u[0]) * slope;
    if constexpr (Orders > 2) u[2] = -(u[0] * u[1]) * slope;
    if constexpr (Orders > 3) u[3] = (u[0] * u[2] * T(2) + u[1] * u[1]) * (slope * T(-1.0 / 3.0));
  }

  // Taylor coefficients of u(x); NaN where x is not finite.
  template <int Orders>
  [[gnu::always_inline]] void squash(Vec x, Vec* u) const {
    const Vec z = (x - center) * slope, poison = x - x;
    if (functions.tanh) {
      u[0] = tanh<T, L>(z) + poison;
      return differentiate_tanh<Orders>(u);
    }
    const Vec top = S::splat(T(1)), bottom = S::splat(T(-1));
    const Vec high = z > top ? top : z;
    u[0] = (high < bottom ? bottom : high) + poison;
    if constexpr (Orders > 1)
      u[1] = (((z >= bottom) & (z <= top)) ? S::splat(slope) : Vec{}) + poison;
    for (int k = 2; k < Orders; ++k) u[k] = poison;
  }

  // P_{n+1} = a u P_n - b P_{n-1} in power series; a = 2 and b = 1 are Chebyshev's. With `Shared`
  // the row of SiLU is filled too.
  template <int Orders, bool Chebyshev, bool Shared>
  void polynomials(const T* x, std::int64_t samples, std::int64_t pitch, T* out) const {
    std::int64_t s = 0;
    // Two vectors at once: each step of the recurrence waits for the one before.
    if constexpr (Orders <= 2)
      for (; s + 2 * L <= samples; s += 2 * L)
        polynomials_at<Orders, Chebyshev, Shared, 2>(x + s, pitch, out + s);
    for (; s < samples; s += L) polynomials_at<Orders, Chebyshev, Shared, 1>(x + s, pitch, out + s);
  }

  template <int Orders, bool Chebyshev, bool Shared, int N>
  [[gnu::always_inline]] void polynomials_at(const T* x, std::int64_t pitch, T* row) const {
    constexpr T factorial[] = {T(1), T(1), T(2), T(6)};
    const std::int64_t order = rows * pitch, count = functions.count;
    const T* const recurrence = constants;
    Vec u[N][Orders], factors[N][Orders], previous[N][Orders], current[N][Orders];
    const auto store = [&](const Vec(&series)[N][Orders]) {
      for (int v = 0; v < N; ++v)
        for (int k = 0; k < Orders; ++k)
          S::store(row + k * order + v * L, k > 1 ? factorial[k] * series[v][k] : series[v][k]);
      row += pitch;
    };
    for (int v = 0; v < N; ++v) {
      const Vec at = S::load(x + v * L), poison = at - at;
      if constexpr (Shared) {
        Vec logistic, silu[Orders];
        tanh_and_logistic<T, L>(at, u[v][0], logistic);
        u[v][0] += poison;
        differentiate_tanh<Orders>(u[v]);
        silu_from_logistic<T, L, Orders>(at, logistic, silu);
        for (int k = 0; k < Orders; ++k)
          S::store(row + k * order + (rows - 1) * pitch + v * L, silu[k]);
      } else {
        squash<Orders>(at, u[v]);
      }
      for (int k = 0; k < Orders; ++k) {
        previous[v][k] = (k ? poison : poison + T(1)), current[v][k] = u[v][k];
        factors[v][k] = T(2) * u[v][k];
      }
    }
    if (functions.constant) store(previous);
    store(current);
    for (std::int64_t n = 1; n < count; ++n) {
      for (int v = 0; v < N; ++v) {
        T b = T(1);
        if constexpr (!Chebyshev) {
          for (int k = 0; k < Orders; ++k) factors[v][k] = recurrence[2 * n] * u[v][k];
          b = recurrence[2 * n + 1];
        }
        Vec next[Orders];
        for (int k = 0; k < Orders; ++k) {
          next[k] = Chebyshev ? factors[v][0] * current[v][k] - previous[v][k]
                              : factors[v][0] * current[v][k] - b * previous[v][k];
          for (int i = 1; i <= k; ++i) next[k] += factors[v][i] * current[v][k - i];
        }
        for (int k = 0; k < Orders; ++k) previous[v][k] = current[v][k], current[v][k] = next[k];
      }
      store(current);
    }
  }

  template <int Orders>
  void waves(const T* x, std::int64_t samples, std::int64_t pitch, T* out) const {
    const std::int64_t K = functions.count;
    for (std::int64_t s = 0; s < samples; s += L) {
      Vec c1, s1;
      sincos<T, L>(S::load(x + s) * static_cast<T>(functions.scale), s1, c1);
      Vec c = c1, sn = s1;
      for (std::int64_t n = 1; n <= K; ++n) {
        T scale = T(1);
        T* row = out + (n - 1) * pitch + s;
        for (int k = 0; k < Orders; ++k) {
          // The derivatives of cos are -sin, -cos, sin; those of sin are cos, -sin, -cos.
          const Vec first = k % 2 ? sn : c, second = k % 2 ? c : sn;
          S::store(row + k * rows * pitch, (k == 1 || k == 2 ? -scale : scale) * first);
          S::store(row + (k * rows + K) * pitch, (k >= 2 ? -scale : scale) * second);
          scale *= static_cast<T>(static_cast<double>(n) * functions.scale);
        }
        const Vec turned = c * c1 - sn * s1;
        sn = sn * c1 + c * s1;
        c = turned;
      }
    }
  }

  // The derivative of order k is (-1/w)^k He_k(z) B.
  template <int Orders>
  void gaussians(const T* x, std::int64_t samples, std::int64_t pitch, T* out) const {
    const T inverse = static_cast<T>(1.0 / functions.scale);
    // Where the exponential underflows, a Hermite polynomial may overflow: 0 inf would be NaN.
    constexpr T bound = sizeof(T) == 4 ? T(-87) : T(-708);
    for (std::int64_t s = 0; s < samples; s += L) {
      const Vec at = S::load(x + s), poison = at - at;
      for (std::int64_t m = 0; m < functions.count; ++m) {
        const Vec z = (at - constants[m]) * inverse, exponent = T(-0.5) * z * z;
        const Vec value = exp<T, L>(exponent);
        const auto hidden = exponent < bound;
        Vec hermite = S::splat(T(1)), previous{};
        T scale = T(1);
        for (int k = 0; k < Orders; ++k) {
          const Vec derivative = k ? (scale * hermite) * value : value;
          S::store(out + (k * rows + m) * pitch + s, (hidden ? Vec{} : derivative) + poison);
          const Vec next = z * hermite - static_cast<T>(k) * previous;
          previous = hermite, hermite = next;
          scale *= -inverse;
        }
      }
    }
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
