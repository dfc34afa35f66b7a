// A thread's buffers, grown when needed and kept from call to call.
#pragma once

#include <cstdint>
#include <vector>

namespace kandle {
namespace KANDLE_ISA {

// Each slot of each element type is one buffer, aligned to a cache line.
template <class T, int Slot>
inline T* scratch(std::int64_t size) {
  constexpr std::int64_t kAlign = 64;
  thread_local std::vector<char> buffer;
  const std::int64_t bytes = size * static_cast<std::int64_t>(sizeof(T)) + kAlign;
  if (static_cast<std::int64_t>(buffer.size()) < bytes) buffer.resize(bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  return reinterpret_cast<T*>((address + kAlign - 1) / kAlign * kAlign);
}

inline std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace KANDLE_ISA
}  // namespace kandle
