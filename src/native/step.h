// Adam's step of a layer's weights, from gradients that never leave the caches.
#pragma once

#include "adam.h"
#include "scratch.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

// Advances b tile by tile. The rows of r and c in a tile are short: they wait until those of four
// tiles are there.
template <class T, int L>
class StepTiles {
 public:
  // The tiles have features begin .. end - 1.
  StepTiles(const JetArgs<T>& args, std::int64_t model, std::int64_t begin, std::int64_t end)
      : args_(args),
        model_(model),
        begin_(begin),
        end_(end),
        rule_(args.update->options, args.update->step + 3 * model) {}

  // The gradients of the rows of a tile are at `in`, as `store_gradients` takes them.
  void step(const Tile& tile, int degree, const T* in) const {
    const std::int64_t row = tile.features * (args_.spline.grid + degree);
    T* db = scratch<T, 6>(tile.outputs * row);
    T* dr = scratch<T, 7>(2 * tile.outputs * kWaiting);
    T* dc = dr + tile.outputs * kWaiting;
    const std::int64_t place = (tile.feature - begin_) % kWaiting;
    store_gradients<T, L>(args_, model_, tile, degree, in,
                          {dr + place, dc + place, kWaiting, db, row});
    advance(args_.update->b, db, row, tile, row / tile.features);
    const std::int64_t waiting = place + tile.features, end = tile.feature + tile.features;
    if (waiting < kWaiting && end < end_) return;
    const Tile all{end - waiting, waiting, tile.output, tile.outputs, tile.rows, tile.pitch};
    advance(args_.update->r, dr, kWaiting, all, 1);
    advance(args_.update->c, dc, kWaiting, all, 1);
  }

 private:
  using State = typename WeightStep<T>::State;

  static constexpr std::int64_t kWaiting = 4 * kTileFeatures<T>;

  // The edges of a tile in an array with `each` numbers per edge; g has rows of `pitch`.
  void advance(const State& state, const T* g, std::int64_t pitch, const Tile& tile,
               std::int64_t each) const {
    for (std::int64_t o = 0; o < tile.outputs; ++o) {
      const std::int64_t edge = (model_ * args_.n_out + tile.output + o) * args_.n_in;
      const std::int64_t at = (edge + tile.feature) * each;
      T *w = state.w + at, *m = state.m + at, *v = state.v + at;
      rule_.template advance<true>(tile.features * each, w, g + o * pitch, m, v, w, m, v);
    }
  }

  const JetArgs<T>& args_;
  const std::int64_t model_, begin_, end_;
  const AdamRule<T> rule_;
};

// The gradients of the rows of a tile, of a task that takes these features, to where the call wants
// them: to the arrays of gradients, or to Adam's step.
template <class T, int L>
inline void finish_tile(const JetArgs<T>& args, std::int64_t model, Range features,
                        const Tile& tile, int degree, const T* dw) {
  if (args.update)
    StepTiles<T, L>(args, model, features.begin, features.end).step(tile, degree, dw);
  else
    store_gradients<T, L>(args, model, tile, degree, dw);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
