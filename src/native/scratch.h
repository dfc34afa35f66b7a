// A thread's buffers, grown when needed and kept from call to call.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace kandle {
namespace KANDLE_ISA {

// Not std::vector: its members, compiled for one instruction set, would be linked in for all of
// them.
struct Buffer {
  static constexpr std::int64_t kAlign = 64;  // a cache line
  void* data = nullptr;
  std::int64_t bytes = 0;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data); }

  void* at_least(std::int64_t wanted) {
    if (bytes < wanted || !data) {
      bytes = (wanted + kAlign) / kAlign * kAlign;
      std::free(data);
      data = std::aligned_alloc(kAlign, bytes);
      if (!data) throw std::bad_alloc();  // an error of the call: ffi.cc catches it
    }
    return data;
  }
};

// Each slot of each element type is one buffer.
template <class T, int Slot>
inline T* scratch(std::int64_t size) {
  thread_local Buffer buffer;
  return static_cast<T*>(buffer.at_least(size * static_cast<std::int64_t>(sizeof(T))));
}

inline std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace KANDLE_ISA
}  // namespace kandle
