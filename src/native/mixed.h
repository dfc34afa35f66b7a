// The gradients that third derivatives of a network need of one layer, in one pass over its points.
#pragma once

#include "active.h"
#include "kernel.h"

namespace kandle {

// Q = sum p[n,o] phi + (q[n,o] u[n,i] + s[n,o] v[n,i] + g[n,o] w[n,i]) phi'
//         + g[n,o] u[n,i] v[n,i] phi''
//
// at x[n,i], of one model with cubic splines and few outputs. Each of p, q, s, g, w may be missing;
// without v, nothing but p and q counts. The layer has the weights, and where their gradients go.
template <class T>
struct MixedArgs {
  JetArgs<T> layer;
  const T *u, *v, *w, *p, *q, *s, *g;
  T *dx, *du;  // null where not wanted
};

// The gradients of Q in x, u and the weights of features begin .. end - 1.
template <class T>
using MixedKernel = void (*)(const MixedArgs<T>&, std::int64_t begin, std::int64_t end);

struct MixedTable {
  MixedKernel<float> f32;
  MixedKernel<double> f64;
};

#define KANDLE_DECLARE_MIXED(isa)  \
  namespace isa {                  \
  const MixedTable& mixed_table(); \
  }

KANDLE_DECLARE_MIXED(portable)
KANDLE_DECLARE_MIXED(x86_64_v2)
KANDLE_DECLARE_MIXED(x86_64_v3)
KANDLE_DECLARE_MIXED(x86_64_v4)
KANDLE_DECLARE_MIXED(native)

// That of the instruction set which active.h chooses.
inline const MixedTable& active_mixed_table() {
#if defined(KANDLE_NATIVE_ONLY)
  return native::mixed_table();
#elif defined(__x86_64__)
  const KernelTable* const chosen = &active_table();
  if (chosen == &x86_64_v4::table()) return x86_64_v4::mixed_table();
  if (chosen == &x86_64_v3::table()) return x86_64_v3::mixed_table();
  if (chosen == &x86_64_v2::table()) return x86_64_v2::mixed_table();
  return portable::mixed_table();
#else
  return portable::mixed_table();
#endif
}

template <class T>
MixedKernel<T> active_mixed() {
  if constexpr (sizeof(T) == 4) {
    return active_mixed_table().f32;
  } else {
    return active_mixed_table().f64;
  }
}

}  // namespace kandle
