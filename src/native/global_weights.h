// The weights of a layer of a basis without local support as rows of a product, and back.
#pragma once

#include "kernel.h"

namespace kandle {
namespace KANDLE_ISA {

// Calls visit(i, row, o, weight) for all weights of some features and outputs: c b of the `m`
// functions and, where the layer has SiLU, r as the row after them.
template <class T, class Visit>
[[gnu::always_inline]] inline void for_weights(const JetArgs<T>& args, std::int64_t m,
                                               std::int64_t model, Range features, Range outputs,
                                               const Visit& visit) {
  const T *r = args.r.at(model), *c = args.c.at(model), *b = args.b.at(model);
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o)
    for (std::int64_t i = features.begin; i < features.end; ++i) {
      const std::int64_t edge = o * args.n_in + i;
      for (std::int64_t row = 0; row < m; ++row) visit(i, row, o, c[edge] * b[edge * m + row]);
      if (args.residual) visit(i, m, o, r[edge]);
    }
}

// dr, dc = sum_m b dW and db = c dW of one feature from dW[row][o].
template <class T>
inline void store_gradients(const JetArgs<T>& args, std::int64_t m, std::int64_t model,
                            std::int64_t i, const T* dw) {
  const std::int64_t n_out = args.n_out, all = model * n_out * args.n_in;
  const T *c = args.c.at(model), *b = args.b.at(model);
  for (std::int64_t o = 0; o < n_out; ++o) {
    const std::int64_t edge = o * args.n_in + i;
    T sum = T(0);
    for (std::int64_t row = 0; row < m; ++row) {
      const T gradient = dw[row * n_out + o];
      args.db[(all + edge) * m + row] = c[edge] * gradient;
      sum += b[edge * m + row] * gradient;
    }
    args.dc[all + edge] = sum;
    args.dr[all + edge] = args.residual ? dw[m * n_out + o] : T(0);
  }
}

}  // namespace KANDLE_ISA
}  // namespace kandle
