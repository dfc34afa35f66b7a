// Adam's step, element by element, in one pass over the gradient, both moments and the weights.
#pragma once

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

// Elements begin .. end - 1 of one model.
template <class T>
void adam(const AdamArgs<T>& p, std::int64_t model, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = model * p.n + begin, count = end - begin;
  const AdamRule<T> rule(p.options, p.step + 3 * model);
  const T *g = p.g + first, *m = p.m + first, *v = p.v + first;
  T *out = p.out + first, *m_out = p.m_out + first, *v_out = p.v_out + first;
  if (p.w)
    rule.template advance<true>(count, p.w + first, g, m, v, out, m_out, v_out);
  else
    rule.template advance<false>(count, nullptr, g, m, v, out, m_out, v_out);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
