// The weights of one input feature between their own layout, (n_out, n_in, ...), and rows of
// outputs.
#pragma once

#include <algorithm>

#include "kernel.h"
#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

// residual[o] = r, and c b_m in row degree + m; whatever is not a weight of the layer is zero.
template <class T>
inline void load_weights(const JetArgs<T>& args, std::int64_t model, std::int64_t i, int degree,
                         std::int64_t n_rows, std::int64_t pitch, T* residual, T* rows) {
  const std::int64_t n_in = args.n_in, m = args.spline.grid + degree;
  std::fill(residual, residual + pitch, T(0));
  std::fill(rows, rows + n_rows * pitch, T(0));
  const T *r = args.r.at(model), *c = args.c.at(model), *b = args.b.at(model);
  for (std::int64_t o = 0; o < args.n_out; ++o) {
    const std::int64_t edge = o * n_in + i;
    if (args.residual) residual[o] = r[edge];
    const T scale = c[edge];
    for (std::int64_t j = 0; j < m; ++j) rows[(degree + j) * pitch + o] = scale * b[edge * m + j];
  }
}

// Gradients of those rows to dr, dc = sum_m b dW and db = c dW.
template <class T>
[[gnu::always_inline]] inline void store_gradients(const JetArgs<T>& args, std::int64_t model,
                                                   std::int64_t i, int degree, std::int64_t pitch,
                                                   const T* residual, const T* rows) {
  const std::int64_t n_in = args.n_in, n_out = args.n_out, m = args.spline.grid + degree;
  const T *c = args.c.at(model), *b = args.b.at(model);
  for (std::int64_t o = 0; o < n_out; ++o) {
    const std::int64_t edge = o * n_in + i, all = model * n_out * n_in + edge;
    args.dr[all] = args.residual ? residual[o] : T(0);
    T sum = T(0);
    for (std::int64_t j = 0; j < m; ++j) {
      const T value = rows[(degree + j) * pitch + o];
      args.db[all * m + j] = c[edge] * value;
      sum += b[edge * m + j] * value;
    }
    args.dc[all] = sum;
  }
}

template <class T, int L>
inline void store_bias_gradient(const JetArgs<T>& args, std::int64_t model) {
  sum_columns<T, L>(args.g.at(model), args.n, args.n_out, args.dbias + model * args.n_out);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
