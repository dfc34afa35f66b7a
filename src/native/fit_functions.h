// The functions of a basis without local support at the points of a block, and what a sum of their
// slopes is made of.
//
// The slope of a polynomial is a sum of the same polynomials, that of a wave the other wave and
// that of a Gaussian a multiple of it: with weights of its own, the slope of a sum of functions is
// a sum of the same functions, and no table of derivatives is needed.
//
//   Chebyshev   T_n' = 2 n (T_{n-1} + T_{n-3} + ...), with half of T_0
//   Legendre    P_n' = (2n-1) P_{n-1} + (2n-5) P_{n-3} + ...
//   Fourier     cos_n' = -n w sin_n, sin_n' = n w cos_n
//   Gaussian    B_m' = -(x - c_m) / w^2 B_m
//
// times u' for polynomials of u(x).
#pragma once

#include <cmath>

#include "functions.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T>
class FitFunctions : Tables<T> {
 public:
  using Base = Tables<T>;
  using Base::constants, Base::functions, Base::L, Base::residual, Base::rows;
  using typename Base::S, typename Base::Vec;
  enum { kArgument, kResidual, kSlopes };  // of a feature: u' or, for Gaussians, x; then SiLU'

  using Base::Base, Base::place;

  bool gaussian() const { return functions.family == Family::kGaussian; }

  // A sum of slopes has these functions, in the order of the table from `first_sloped`, after them
  // the function 1 for polynomials, and SiLU'.
  std::int64_t sloped() const {
    return functions.polynomial() ? functions.count - 1 : functions.size();
  }
  std::int64_t first_sloped() const { return functions.polynomial() && functions.constant; }
  std::int64_t others() const { return functions.polynomial() + residual; }

  // From weights w[row][o] of the functions to those of the sum of their slopes, without SiLU's.
  // Rows of both have Width outputs.
  template <int Width>
  void slope_weights(const T* w, T* out) const {
    const std::int64_t count = functions.count;
    const auto scale = [](T factor, const T* from, T* to) {
      for (int o = 0; o < Width; ++o) to[o] = factor * from[o];
    };
    if (functions.family == Family::kFourier) {
      for (std::int64_t n = 0; n < count; ++n) {
        const T frequency = static_cast<T>((n + 1) * functions.scale);
        scale(frequency, w + (count + n) * Width, out + n * Width);
        scale(-frequency, w + n * Width, out + (count + n) * Width);
      }
    } else if (functions.family == Family::kGaussian) {
      const T factor = static_cast<T>(-1.0 / (functions.scale * functions.scale));
      for (std::int64_t m = 0; m < count; ++m) scale(factor, w + m * Width, out + m * Width);
    } else {
      const bool chebyshev = functions.family == Family::kChebyshev;
      T sums[2][Width] = {};
      for (std::int64_t k = count - 1; k >= 0; --k) {  // the weights are those of degree k + 1
        const T* from = w + (functions.constant + k) * Width;
        const T degree = chebyshev ? static_cast<T>(k + 1) : T(1);
        const T factor = chebyshev ? T(k ? 2 : 1) : static_cast<T>(2 * k + 1);
        T* sum = sums[k % 2];
        for (int o = 0; o < Width; ++o) sum[o] += degree * from[o];
        scale(factor, sum, out + (k ? k - 1 : count - 1) * Width);
      }
    }
  }

  // values[row][s] and slopes[.][s] at `samples` points, a multiple of L; rows are `pitch` apart.
  void fill(const T* x, std::int64_t samples, std::int64_t pitch, T* values, T* slopes) const {
    switch (functions.family) {
      case Family::kChebyshev:
        if (Base::shared_exponential())
          return polynomials<true, true>(x, samples, pitch, values, slopes);
        polynomials<true, false>(x, samples, pitch, values, slopes);
        break;
      case Family::kLegendre:
        if (Base::shared_exponential())
          return polynomials<false, true>(x, samples, pitch, values, slopes);
        polynomials<false, false>(x, samples, pitch, values, slopes);
        break;
      case Family::kFourier:
        Base::template waves<1>(x, samples, pitch, values);
        break;
      case Family::kGaussian:
        gaussians(x, samples, pitch, values, slopes);
        break;
    }
    if (!residual) return;
    for (std::int64_t s = 0; s < samples; s += L) {
      Vec silu[2];
      evaluate_silu<T, L, 2>(S::load(x + s), silu);
      S::store(values + (rows - 1) * pitch + s, silu[0]);
      S::store(slopes + kResidual * pitch + s, silu[1]);
    }
  }

 private:
  template <bool Chebyshev, bool Shared>
  void polynomials(const T* x, std::int64_t samples, std::int64_t pitch, T* values,
                   T* slopes) const {
    std::int64_t s = 0;
    // Two vectors at once: each step of the recurrence waits for the one before.
    for (; s + 2 * L <= samples; s += 2 * L)
      polynomials_at<Chebyshev, Shared, 2>(x + s, pitch, values + s, slopes + s);
    for (; s < samples; s += L)
      polynomials_at<Chebyshev, Shared, 1>(x + s, pitch, values + s, slopes + s);
  }

  template <bool Chebyshev, bool Shared, int N>
  [[gnu::always_inline]] void polynomials_at(const T* x, std::int64_t pitch, T* row,
                                             T* slopes) const {
    const std::int64_t count = functions.count;
    const T* const recurrence = constants;
    Vec u[N], previous[N], current[N];
    for (int v = 0; v < N; ++v) {
      const Vec at = S::load(x + v * L), poison = at - at;
      Vec series[2], silu[2];
      if constexpr (Shared) {
        Vec logistic;
        tanh_and_logistic<T, L>(at, series[0], logistic);
        series[0] += poison;
        Base::template differentiate_tanh<2>(series);
        silu_from_logistic<T, L, 2>(at, logistic, silu);
        S::store(row + (rows - 1) * pitch + v * L, silu[0]);
        S::store(slopes + kResidual * pitch + v * L, silu[1]);
      } else {
        Base::template squash<2>(at, series);
      }
      S::store(slopes + kArgument * pitch + v * L, series[1]);
      previous[v] = poison + T(1), current[v] = series[0];
      u[v] = Chebyshev ? series[0] + series[0] : series[0];
    }
    const auto store = [&](const Vec(&value)[N]) {
      for (int v = 0; v < N; ++v) S::store(row + v * L, value[v]);
      row += pitch;
    };
    if (functions.constant) store(previous);
    store(current);
    for (std::int64_t n = 1; n < count; ++n) {
      for (int v = 0; v < N; ++v) {
        const Vec next = Chebyshev ? u[v] * current[v] - previous[v]
                                   : (recurrence[2 * n] * u[v]) * current[v] -
                                         recurrence[2 * n + 1] * previous[v];
        previous[v] = current[v], current[v] = next;
      }
      store(current);
    }
  }

  void gaussians(const T* x, std::int64_t samples, std::int64_t pitch, T* values, T* slopes) const {
    // The exponent of 2, and what bounds it: far out, squares overflow where the function is zero.
    const T factor = static_cast<T>(-0.5 / std::log(2.0) / (functions.scale * functions.scale));
    const Vec bottom = S::splat(sizeof(T) == 4 ? T(-1000) : T(-3000));
    const std::int64_t count = functions.count;
    const T* const centers = constants;
    for (std::int64_t s = 0; s < samples; s += L) {
      const Vec given = S::load(x + s), at = given + (given - given);
      S::store(slopes + kArgument * pitch + s, at);
      for (std::int64_t m = 0; m < count; ++m) {
        const Vec from = at - centers[m], exponent = (factor * from) * from;
        S::store(values + m * pitch + s, exp2<T, L>(exponent < bottom ? bottom : exponent));
      }
    }
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
