// The trilinear form F = sum a[n,i] w[i,m,o] g[n,o] B_m^(order)(x[n,i]) and its derivatives in g, a
// and w: what every derivative of a layer consists of.
//
// With a residual, the last of the functions B_m is SiLU.
//
// Taps are tabulated over blocks of samples, with SIMD over samples; everything else is SIMD over
// outputs. The weights of a feature lie between rows of zeros, as basis.h describes, in rows of
// whole vectors.
#pragma once

#include <algorithm>

#include "basis.h"
#include "scratch.h"

namespace kandle {
namespace KANDLE_ISA {

// The derivative of order n of R(x) = x s(x), s the logistic function: R^(n) = x s^(n) + n s^(n-1),
// where s^(n) = s (1 - s) Q_n(s) for n > 0, Q_1 = 1 and Q_(n+1) = s (1 - s) Q_n' + (1 - 2 s) Q_n.
template <class T>
struct SiluDerivative {
  int order;
  T high[kMaxSiluOrder], low[kMaxSiluOrder];  // coefficients of Q_order and Q_(order-1)

  explicit SiluDerivative(int order) : order(order), high{}, low{} {
    double q[kMaxSiluOrder + 1] = {1.0};
    for (int n = 1; n <= order; ++n) {
      for (int j = 0; j < kMaxSiluOrder; ++j) (n == order ? high : low)[j] = static_cast<T>(q[j]);
      double next[kMaxSiluOrder + 1] = {};
      for (int j = 0; j < kMaxSiluOrder; ++j) {
        next[j] += q[j] + j * q[j];
        next[j + 1] -= 2 * q[j] + j * q[j];
      }
      std::memcpy(q, next, sizeof q);
    }
    if (order == 1) std::fill(low, low + kMaxSiluOrder, T(0));
  }

  template <int L>
  typename Simd<T, L>::Vec at(typename Simd<T, L>::Vec x) const {
    using Vec = typename Simd<T, L>::Vec;
    const Vec s = T(1) / (T(1) + exp<T, L>(-x)), poison = x - x;
    if (order == 0) return x * s + poison;
    const Vec q = s * (T(1) - s);
    const Vec below = order == 1 ? s : q * horner<L>(low, s);
    return x * (q * horner<L>(high, s)) + T(order) * below + poison;
  }

  template <int L>
  typename Simd<T, L>::Vec horner(const T* coefficients, typename Simd<T, L>::Vec s) const {
    typename Simd<T, L>::Vec p = Simd<T, L>::splat(coefficients[order - 1]);
    for (int j = order - 2; j >= 0; --j) p = p * s + coefficients[j];
    return p;
  }
};

// K is the degree, or 0 where only the run time knows it; V the number of lanes over outputs.
template <class T, int K, int V>
struct Trilinear {
  static constexpr int L = kLanes<T>;
  static constexpr std::int64_t B = 64;  // samples of a block, a multiple of L and of V
  using Points = Simd<T, L>;
  using Outputs = Simd<T, V>;
  using Vec = typename Outputs::Vec;

  const TrilinearArgs<T>& p;
  const std::int64_t model, n_in, n_out;
  const int degree;
  const Cells<T> cells;
  const TapTable<T> table;
  const SiluDerivative<T> silu;
  const bool residual;
  const std::int64_t functions;    // of an input, the residual among them
  const std::int64_t pitch, rows;  // the residual's row is the last one

  Trilinear(const TrilinearArgs<T>& args, std::int64_t model)
      : p(args),
        model(model),
        n_in(args.n_in),
        n_out(args.n_out),
        degree(K ? K : args.spline.degree),
        cells(args.spline),
        table(args.spline, args.order),
        silu(args.residual ? args.order : 0),
        residual(args.residual),
        functions(args.spline.grid + args.spline.degree + args.residual),
        pitch(round_up(args.n_out, V)),
        rows(cell_count(args.spline) + args.spline.degree + args.residual) {}

  struct Table {
    T taps[kMaxDegree + 1][B], residual[B];
    std::int32_t cell[B];
  };

  // The taps of feature i at `count` samples from `start` on.
  void tabulate(std::int64_t i, std::int64_t start, std::int64_t count, Table& out) const {
    const T* x = p.x.at(model) + start * n_in + i;
    for (std::int64_t s = 0; s < count; s += L) {
      typename Points::Vec points, value[kMaxDegree + 1];
      for (int l = 0; l < L; ++l) points[l] = x[std::min<std::int64_t>(s + l, count - 1) * n_in];
      const auto at = locate<T, L>(points, cells);
      evaluate_taps<T, L, K>(table, degree, p.order, at, value);
      // The derivative of order `degree` is a constant that the position does not enter: NaN must.
      for (int t = 0; t <= degree; ++t) Points::store(out.taps[t] + s, value[t] + at.poison);
      if (residual) Points::store(out.residual + s, silu.template at<L>(points));
      for (int l = 0; l < L; ++l) out.cell[s + l] = static_cast<std::int32_t>(at.cell[l]);
    }
  }

  T* packed_weights() const {
    T* packed = scratch<T, 0>(n_in * rows * pitch);
    std::fill(packed, packed + n_in * rows * pitch, T(0));
    const T* w = p.w.at(model);
    for (std::int64_t i = 0; i < n_in; ++i)
      for (std::int64_t j = 0; j < functions; ++j, w += n_out)
        std::copy(w, w + n_out, packed + (i * rows + row_of(j)) * pitch);
    return packed;
  }

  // Where the weights of function j lie among the rows of a feature.
  std::int64_t row_of(std::int64_t j) const {
    return residual && j + 1 == functions ? rows - 1 : degree + j;
  }

  // Rows of g in whole vectors; the rows themselves where they are.
  const T* padded_g(std::int64_t begin, std::int64_t end) const {
    const T* g = p.g.at(model) + begin * n_out;
    if (pitch == n_out) return g;
    T* padded = scratch<T, 1>((end - begin) * pitch);
    for (std::int64_t s = 0; s < end - begin; ++s) {
      std::copy(g + s * n_out, g + (s + 1) * n_out, padded + s * pitch);
      std::fill(padded + s * pitch + n_out, padded + (s + 1) * pitch, T(0));
    }
    return padded;
  }

  void y(std::int64_t begin, std::int64_t end) const {
    const T *packed = packed_weights(), *a = p.a.at(model);
    T *sums = scratch<T, 2>(B * pitch), *out = p.out + model * p.n * n_out;
    Table at;
    for (std::int64_t start = begin; start < end; start += B) {
      const std::int64_t count = std::min(B, end - start);
      std::fill(sums, sums + count * pitch, T(0));
      for (std::int64_t i = 0; i < n_in; ++i) {
        tabulate(i, start, count, at);
        for (std::int64_t s = 0; s < count; ++s) {
          const T scale = a[(start + s) * n_in + i];
          const T* weight = packed + (i * rows + at.cell[s]) * pitch;
          const T* last = packed + (i * rows + rows - 1) * pitch;
          for (std::int64_t o = 0; o < pitch; o += V) {
            Vec sum = Outputs::load(sums + s * pitch + o);
            for (int t = 0; t <= degree; ++t)
              sum += (scale * at.taps[t][s]) * Outputs::load(weight + t * pitch + o);
            if (residual) sum += (scale * at.residual[s]) * Outputs::load(last + o);
            Outputs::store(sums + s * pitch + o, sum);
          }
        }
      }
      for (std::int64_t s = 0; s < count; ++s)
        std::copy(sums + s * pitch, sums + s * pitch + n_out, out + (start + s) * n_out);
    }
  }

  void a(std::int64_t begin, std::int64_t end) const {
    const T *packed = packed_weights(), *g = padded_g(begin, end);
    T *products = scratch<T, 2>(B * V), *out = p.out + model * p.n * n_in;
    Table at;
    for (std::int64_t start = begin; start < end; start += B) {
      const std::int64_t count = std::min(B, end - start);
      for (std::int64_t i = 0; i < n_in; ++i) {
        tabulate(i, start, count, at);
        for (std::int64_t s = 0; s < count; ++s) {
          const T* weight = packed + (i * rows + at.cell[s]) * pitch;
          const T* last = packed + (i * rows + rows - 1) * pitch;
          const T* row = g + (start - begin + s) * pitch;
          Vec product = Outputs::splat(T(0));
          for (std::int64_t o = 0; o < pitch; o += V) {
            Vec phi = at.taps[0][s] * Outputs::load(weight + o);
            for (int t = 1; t <= degree; ++t)
              phi += at.taps[t][s] * Outputs::load(weight + t * pitch + o);
            if (residual) phi += at.residual[s] * Outputs::load(last + o);
            product += phi * Outputs::load(row + o);
          }
          Outputs::store(products + s * V, product);
        }
        for (std::int64_t s = 0; s < count; s += V) {
          const Vec sums =
              lane_sums<T, V>(products + s * V);  // of stale lanes past `count`: not written
          for (std::int64_t l = 0; l < std::min<std::int64_t>(V, count - s); ++l)
            out[(start + s + l) * n_in + i] = sums[l];
        }
      }
    }
  }

  void w(std::int64_t begin, std::int64_t end) const {
    const T *g = padded_g(0, p.n), *a = p.a.at(model);
    T *sums = scratch<T, 0>(rows * pitch),
      *out = p.out + (model * n_in + begin) * functions * n_out;
    Table at;
    for (std::int64_t i = begin; i < end; ++i) {
      std::fill(sums, sums + rows * pitch, T(0));
      for (std::int64_t start = 0; start < p.n; start += B) {
        const std::int64_t count = std::min(B, p.n - start);
        tabulate(i, start, count, at);
        for (std::int64_t s = 0; s < count; ++s) {
          const T scale = a[(start + s) * n_in + i];
          T* row = sums + at.cell[s] * pitch;
          for (std::int64_t o = 0; o < pitch; o += V) {
            const Vec along = Outputs::load(g + (start + s) * pitch + o);
            for (int t = 0; t <= degree; ++t) {
              T* sum = row + t * pitch + o;
              Outputs::store(sum, Outputs::load(sum) + (scale * at.taps[t][s]) * along);
            }
            if (residual) {
              T* sum = sums + (rows - 1) * pitch + o;
              Outputs::store(sum, Outputs::load(sum) + (scale * at.residual[s]) * along);
            }
          }
        }
      }
      for (std::int64_t j = 0; j < functions; ++j, out += n_out)
        std::copy(sums + row_of(j) * pitch, sums + row_of(j) * pitch + n_out, out);
    }
  }
};

template <class T, int K, class Work>
void with_lanes(const TrilinearArgs<T>& p, std::int64_t model, Work work) {
  constexpr int L = kLanes<T>, half = L > 4 ? L / 2 : L;
  if (p.n_out == 1) return work(Trilinear<T, K, 1>(p, model));
  if (p.n_out <= half) return work(Trilinear<T, K, half>(p, model));
  work(Trilinear<T, K, L>(p, model));
}

template <class T, class Work>
void with_degree(const TrilinearArgs<T>& p, std::int64_t model, Work work) {
  if (p.spline.degree == 3) return with_lanes<T, 3>(p, model, work);
  with_lanes<T, 0>(p, model, work);
}

template <class T>
void trilinear_y(const TrilinearArgs<T>& p, std::int64_t model, std::int64_t begin,
                 std::int64_t end) {
  with_degree(p, model, [&](const auto& form) { form.y(begin, end); });
}

template <class T>
void trilinear_a(const TrilinearArgs<T>& p, std::int64_t model, std::int64_t begin,
                 std::int64_t end) {
  with_degree(p, model, [&](const auto& form) { form.a(begin, end); });
}

template <class T>
void trilinear_w(const TrilinearArgs<T>& p, std::int64_t model, std::int64_t begin,
                 std::int64_t end) {
  with_degree(p, model, [&](const auto& form) { form.w(begin, end); });
}

}  // namespace KANDLE_ISA
}  // namespace kandle
