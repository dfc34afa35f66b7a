// Adam's step, element by element, in one pass over the gradient, both moments and the weights.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernel.h"

namespace kandle {
namespace KANDLE_ISA {

// The step of one model. The bias corrections belong to the model, so that an element costs one
// division and one square root.
template <class T>
class AdamRule {
 public:
  // `step` is the rate and both bias corrections.
  AdamRule(const AdamOptions& options, const T* step)
      : rate_(step[0] / step[1]),
        correction_(T(1) / step[2]),
        b1_(static_cast<T>(options.b1)),
        b2_(static_cast<T>(options.b2)),
        rest1_(static_cast<T>(1 - options.b1)),
        rest2_(static_cast<T>(1 - options.b2)),
        eps_(static_cast<T>(options.eps)),
        eps_root_(static_cast<T>(options.eps_root)) {}

  // `count` elements, with or without the addition to the weights.
  template <bool Apply>
  void advance(std::int64_t count, const T* w, const T* g, const T* m, const T* v, T* out, T* m_out,
               T* v_out) const {
    const AdamRule rule = *this;  // a store could change what is only referred to
                                  // Results overlap operands element by element at most.
#pragma GCC ivdep
    for (std::int64_t j = 0; j < count; ++j) {
      const T m_next = rule.rest1_ * g[j] + rule.b1_ * m[j];
      const T v_next = rule.rest2_ * (g[j] * g[j]) + rule.b2_ * v[j];
      m_out[j] = m_next;
      v_out[j] = v_next;
      const T root = std::sqrt(v_next * rule.correction_ + rule.eps_root_);
      const T change = rule.rate_ * (m_next / (root + rule.eps_));
      out[j] = Apply ? w[j] - change : -change;
    }
  }

 private:
  T rate_, correction_, b1_, b2_, rest1_, rest2_, eps_, eps_root_;
};

// Elements begin .. end - 1 of one model, counted through all arrays.
template <class T>
void adam(const AdamArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const AdamRule<T> rule(p.options, p.step + 3 * model);
  for (std::int64_t k = 0; k < p.count && end > 0; ++k) {
    const AdamArray<T>& a = p.arrays[k];
    const std::int64_t from = std::max<std::int64_t>(begin, 0), to = std::min(end, a.n);
    begin -= a.n, end -= a.n;
    if (from >= to) continue;
    const std::int64_t first = model * a.n + from, count = to - from;
    const T *g = a.g + first, *m = a.m + first, *v = a.v + first;
    T *out = a.out + first, *m_out = a.m_out + first, *v_out = a.v_out + first;
    if (a.w)
      rule.template advance<true>(count, a.w + first, g, m, v, out, m_out, v_out);
    else
      rule.template advance<false>(count, nullptr, g, m, v, out, m_out, v_out);
  }
}

}  // namespace KANDLE_ISA
}  // namespace kandle
