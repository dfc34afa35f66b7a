// Adam's step, element by element, in one pass over the gradient, both moments and the weights.
#pragma once

#include <cmath>

#include "kernel.h"

namespace kandle {
namespace KANDLE_ISA {

// Elements begin .. end - 1 of one model, with or without the addition to the weights. The bias
// corrections belong to the model, so that an element costs one division and one square root.
template <bool Apply, class T>
void adam_elements(const AdamArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = model * p.n;
  const T *w = Apply ? p.w + first : nullptr, *g = p.g + first, *m = p.m + first, *v = p.v + first,
          *step = p.step + 3 * model;
  T *out = p.out + first, *m_out = p.m_out + first, *v_out = p.v_out + first;
  const T rate = step[0] / step[1], correction = T(1) / step[2];
  const T b1 = static_cast<T>(p.b1), b2 = static_cast<T>(p.b2);
  const T rest1 = static_cast<T>(1 - p.b1), rest2 = static_cast<T>(1 - p.b2);
  const T eps = static_cast<T>(p.eps), eps_root = static_cast<T>(p.eps_root);
  // Results overlap operands element by element at most.
#pragma GCC ivdep
  for (std::int64_t j = begin; j < end; ++j) {
    const T m_next = rest1 * g[j] + b1 * m[j], v_next = rest2 * (g[j] * g[j]) + b2 * v[j];
    m_out[j] = m_next;
    v_out[j] = v_next;
    const T change = rate * (m_next / (std::sqrt(v_next * correction + eps_root) + eps));
    out[j] = Apply ? w[j] - change : -change;
  }
}

template <class T>
void adam(const AdamArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  if (p.w) return adam_elements<true>(p, model, begin, end);
  adam_elements<false>(p, model, begin, end);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
