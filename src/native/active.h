// The kernels of the widest instruction set that this processor has.
#pragma once

#include "kernel.h"

namespace kandle {

inline const KernelTable& choose_table() {
#if defined(KANDLE_NATIVE_ONLY)
  return native::table();
#elif defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return x86_64_v4::table();
  if (__builtin_cpu_supports("x86-64-v3")) return x86_64_v3::table();
  if (__builtin_cpu_supports("x86-64-v2")) return x86_64_v2::table();
  return portable::table();
#else
  return portable::table();
#endif
}

inline const KernelTable& active_table() {
  static const KernelTable& table = choose_table();
  return table;
}

template <class T>
const Kernels<T>& active() {
  if constexpr (sizeof(T) == 4) {
    return active_table().f32;
  } else {
    return active_table().f64;
  }
}

// Beyond this many intervals the number of a cell would not be exact in float32.
inline constexpr std::int64_t kMaxGrid = std::int64_t{1} << 22;

inline bool is_spline(std::int64_t grid, std::int64_t degree) {
  return 1 <= grid && grid <= kMaxGrid && 1 <= degree && degree <= kMaxDegree;
}

}  // namespace kandle
