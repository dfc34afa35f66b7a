// Asks for the weights of the next tile while the arithmetic of this one runs: their rows lie pages
// apart, where no processor looks ahead by itself.
#pragma once

#include "kernel.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

// The cache lines of some numbers, to the second-level cache. Inlined like all that calls it,
// because the compiler takes a function that only does this for one without any effect.
template <class T>
KANDLE_INLINE void ask_for(const T* from, std::int64_t count) {
  constexpr std::uintptr_t kLine = 64;
  const auto end = reinterpret_cast<std::uintptr_t>(from + count);
  for (auto at = reinterpret_cast<std::uintptr_t>(from) / kLine * kLine; at < end; at += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
}

// The weights of a tile, in as many portions as there are steps; with `backward`, what the backward
// pass needs of them. Weights that a cache holds anyway are not asked for.
template <class T>
class Ahead {
 public:
  Ahead(const JetArgs<T>& args, std::int64_t model, const Tile& tile, std::int64_t steps,
        bool backward)
      : args_(args),
        model_(model),
        tile_(tile),
        steps_(bytes(args) < kLeastBytes ? 0 : steps),
        backward_(backward) {}

  KANDLE_INLINE void step() {
    if (at_ == steps_) return;
    const std::int64_t begin = tile_.outputs * at_ / steps_;
    const std::int64_t end = tile_.outputs * ++at_ / steps_;
    const std::int64_t n_in = args_.n_in, m = args_.spline.grid + args_.spline.degree;
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t edge = (tile_.output + o) * n_in + tile_.feature;
      const auto ask =
          [&](const T* array, std::int64_t at, std::int64_t each)
              __attribute__((always_inline)) { ask_for(array + at * each, tile_.features * each); };
      ask(args_.c.at(model_), edge, 1);
      ask(args_.b.at(model_), edge, m);
      if (!backward_) {
        ask(args_.r.at(model_), edge, 1);
        continue;
      }
      // What is written is read first.
      const std::int64_t all = model_ * args_.n_out * n_in + edge;
      ask(args_.dr, all, 1);
      ask(args_.dc, all, 1);
      ask(args_.db, all, m);
    }
  }

 private:
  static constexpr std::int64_t kLeastBytes = std::int64_t{1} << 22;

  static std::int64_t bytes(const JetArgs<T>& a) {
    return a.n_out * a.n_in * (a.spline.grid + a.spline.degree) *
           static_cast<std::int64_t>(sizeof(T));
  }

  const JetArgs<T>& args_;
  const std::int64_t model_;
  const Tile tile_;
  const std::int64_t steps_;
  const bool backward_;
  std::int64_t at_ = 0;
};

}  // namespace KANDLE_ISA
}  // namespace kandle
