// Adam's step of a layer's weights, from gradients that never leave the caches.
#pragma once

#include "adam.h"
#include "scratch.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

// Advances b tile by tile. The rows of r and c in a tile are short: they wait until all features
// begin .. end - 1 of some outputs are there.
template <class T, int L>
class StepTiles {
 public:
  StepTiles(const JetArgs<T>& args, std::int64_t model, std::int64_t begin, std::int64_t end)
      : args_(args),
        model_(model),
        begin_(begin),
        features_(end - begin),
        rule_(args.update->options, args.update->step + 3 * model) {}

  // The gradients of the rows of a tile are at `in`, as `store_gradients` takes them.
  void step(const Tile& tile, int degree, const T* in) const {
    const std::int64_t row = tile.features * (args_.spline.grid + degree);
    T* db = scratch<T, 6>(tile.outputs * row);
    T* dr = scratch<T, 7>(2 * tile.outputs * features_);
    T* dc = dr + tile.outputs * features_;
    const std::int64_t feature = tile.feature - begin_;
    store_gradients<T, L>(args_, model_, tile, degree, in,
                          {dr + feature, dc + feature, features_, db, row});
    advance(args_.update->b, db, tile.output, tile.outputs, tile.feature, tile.features,
            row / tile.features);
    if (feature + tile.features < features_) return;
    advance(args_.update->r, dr, tile.output, tile.outputs, begin_, features_, 1);
    advance(args_.update->c, dc, tile.output, tile.outputs, begin_, features_, 1);
  }

 private:
  using State = typename WeightStep<T>::State;

  // Some outputs and features of an array with `each` numbers per edge.
  void advance(const State& state, const T* g, std::int64_t output, std::int64_t outputs,
               std::int64_t feature, std::int64_t features, std::int64_t each) const {
    const std::int64_t count = features * each;
    for (std::int64_t o = 0; o < outputs; ++o) {
      const std::int64_t at =
          ((model_ * args_.n_out + output + o) * args_.n_in + feature) * each;
      T *w = state.w + at, *m = state.m + at, *v = state.v + at;
      rule_.template advance<true>(count, w, g + o * count, m, v, w, m, v);
    }
  }

  const JetArgs<T>& args_;
  const std::int64_t model_, begin_, features_;
  const AdamRule<T> rule_;
};

}  // namespace KANDLE_ISA
}  // namespace kandle
