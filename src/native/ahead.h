// Asks for the weights of the next tile while the arithmetic of this one runs: rows of weights lie
// pages apart, where no processor looks ahead by itself.
#pragma once

#include "kernel.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

// The rows of a tile, outputs begin .. end - 1 of it.
template <class T>
inline void ask_for(const JetArgs<T>& args, std::int64_t model, const Tile& tile,
                    std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t n_in = args.n_in, m = args.spline.grid + args.spline.degree;
  const T *r = args.r.at(model), *c = args.c.at(model), *b = args.b.at(model);
  const auto ask = [](const T* from, std::int64_t count) {
    for (std::int64_t j = 0; j < count; j += kLine) __builtin_prefetch(from + j, 0, 2);
    __builtin_prefetch(from + count - 1, 0, 2);
  };
  for (std::int64_t o = begin; o < end; ++o) {
    const std::int64_t row = (tile.output + o) * n_in + tile.feature;
    ask(r + row, tile.features);
    ask(c + row, tile.features);
    ask(b + row * m, tile.features * m);
  }
}

// The next tile, in as many portions as there are steps in this one.
template <class T>
class Ahead {
 public:
  Ahead(const JetArgs<T>& args, std::int64_t model, const Tile& next, std::int64_t steps)
      : args_(args), model_(model), next_(next), steps_(steps) {}

  void step() {
    const std::int64_t begin = next_.outputs * at_ / steps_;
    ask_for(args_, model_, next_, begin, next_.outputs * ++at_ / steps_);
  }

 private:
  const JetArgs<T>& args_;
  const std::int64_t model_;
  const Tile next_;
  const std::int64_t steps_;
  std::int64_t at_ = 0;
};

}  // namespace KANDLE_ISA
}  // namespace kandle
