// Adam's update, element by element, in one pass over the gradient and both moments.
#pragma once

#include <cmath>

#include "kernel.h"

namespace kandle {
namespace KANDLE_ISA {

// Elements begin .. end - 1 of one model. Moments may be updated in place.
template <class T>
void adam(const AdamArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const T *g = p.g.at(model), *m = p.m.at(model), *v = p.v.at(model), *step = p.step.at(model);
  T *update = p.update + model * p.n, *m_out = p.m_out + model * p.n,
    *v_out = p.v_out + model * p.n;
  const T rate = step[0], first = step[1], second = step[2];
  const T b1 = static_cast<T>(p.b1), b2 = static_cast<T>(p.b2);
  const T rest1 = static_cast<T>(1 - p.b1), rest2 = static_cast<T>(1 - p.b2);
  const T eps = static_cast<T>(p.eps), eps_root = static_cast<T>(p.eps_root);
  // Results overlap operands element by element at most.
#pragma GCC ivdep
  for (std::int64_t j = begin; j < end; ++j) {
    const T m_next = rest1 * g[j] + b1 * m[j], v_next = rest2 * (g[j] * g[j]) + b2 * v[j];
    m_out[j] = m_next;
    v_out[j] = v_next;
    update[j] = -rate * ((m_next / first) / (std::sqrt(v_next / second + eps_root) + eps));
  }
}

}  // namespace KANDLE_ISA
}  // namespace kandle
