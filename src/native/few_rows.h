// A layer of cubics at a few points, from the weights as they are: packing them for one point would
// take longer than evaluating it, since only four of an edge's coefficients are not multiplied by
// zero.
#pragma once

#include <algorithm>

#include "kernel.h"
#include "quarters.h"
#include "simd.h"
#include "sorted.h"
#include "weights.h"

namespace kandle {
namespace KANDLE_ISA {

// A point: rows of its features, and the cells that they are in.
template <class T>
struct FewPoint {
  PointRows<T> rows;
  const std::int32_t* cells;
};

// The outputs of `Count` points, y[s][o], with the operations of packed weights in their order: the
// same bits.
template <class T, int L, int Count>
void evaluate_few(const JetArgs<T>& args, std::int64_t model, Range outputs,
                  const FewPoint<T>* points, T* y, std::int64_t y_pitch) {
  using S = Simd<T, L>;
  using Vec = typename S::Vec;
  constexpr int kDegree = 3;
  constexpr std::int64_t kFeatures = kTileFeatures<T>;
  const std::int64_t n_in = args.n_in, m = args.spline.grid + kDegree;
  const T *r = args.r.at(model), *c = args.c.at(model), *b = args.b.at(model);
  const T* bias = args.bias.at(model);
  alignas(64) T scales[kFeatures * L], residuals[kFeatures * L];
  if (!args.residual) std::fill_n(residuals, kFeatures * L, T(0));
  for_pieces<L>(outputs.end - outputs.begin, [&](std::int64_t from, std::int64_t width) {
    const std::int64_t o = outputs.begin + from;
    Vec sums[Count] = {};
    for (int s = 0; s < Count; ++s) std::memcpy(&sums[s], bias + o, width * sizeof(T));
    for (std::int64_t i = 0; i < n_in; i += kFeatures) {
      const std::int64_t features = std::min(kFeatures, n_in - i), edge = o * n_in + i;
      load_edges<T, L>(c + edge, n_in, width, features, scales, L);
      if (args.residual) load_edges<T, L>(r + edge, n_in, width, features, residuals, L);
      for (std::int64_t f = 0; f < features; ++f) {
        const Vec scale = S::load(scales + f * L), residual = S::load(residuals + f * L);
#pragma GCC unroll 4
        for (int s = 0; s < Count; ++s) {
          const FewPoint<T>& point = points[s];
          const std::int64_t first = point.cells[i + f] - kDegree;
          const T* weights = b + (edge + f) * m + first;
          Vec w[kDegree + 1] = {};
          if (width == L && first >= 0 && first + kDegree < m) {
            gather_rows<T, L>([&](int l) { return weights + l * n_in * m; }, w);
          } else {
            for (std::int64_t t = std::max<std::int64_t>(0, -first); t <= kDegree && first + t < m;
                 ++t)
              for (std::int64_t l = 0; l < width; ++l) w[t][l] = weights[l * n_in * m + t];
          }
          Vec d[kDegree + 1];
          for (int t = 0; t <= kDegree; ++t) w[t] = rounded(scale * w[t]);  // as packed ones are
          cell_polynomial<T>(w, d);
          sums[s] = add_polynomial(sums[s], d, point.rows.v[i + f], residual,
                                   point.rows.residual()[i + f]);
        }
      }
    }
    for (int s = 0; s < Count; ++s)
      std::memcpy(y + s * y_pitch + from, &sums[s], width * sizeof(T));
  });
}

}  // namespace KANDLE_ISA
}  // namespace kandle
