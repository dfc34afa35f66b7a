// The weights of a layer between their own layout, (n_out, n_in, ...), and rows of outputs.
//
// A tile is some neighbouring features and outputs. Each of its features has `rows` rows of `pitch`
// outputs: r, then c b_m between rows of zeros, as basis.h describes. Squares of L x L numbers are
// turned in registers, because neighbouring outputs lie n_in (grid + degree) numbers apart in b.
#pragma once

#include <algorithm>

#include "kernel.h"
#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

// Features of a tile, at most.
template <class T>
inline constexpr int kTileFeatures = kLanes<T>;

struct Tile {
  std::int64_t feature, features;  // the first one, and how many
  std::int64_t output, outputs;
  std::int64_t rows, pitch;
};

// Calls visit(from, count) for pieces of L that cover `size`; the last one may overlap the one
// before it. Less than one piece is visited as it is.
template <int L, class Visit>
[[gnu::always_inline]] inline void for_pieces(std::int64_t size, const Visit& visit) {
  if (size < L) {
    if (size > 0) visit(std::int64_t{0}, size);
    return;
  }
  for (std::int64_t from = 0; from + L <= size; from += L) visit(from, std::int64_t{L});
  if (size % L) visit(size - L, std::int64_t{L});
}

// Function j of feature f, walked through in the order of b.
struct Place {
  std::int64_t f, j, m;
  Place(std::int64_t column, std::int64_t m) : f(column / m), j(column % m), m(m) {}
  void advance() {
    if (++j == m) j = 0, ++f;
  }
};

// A square of b, c or r. Neighbouring outputs lie pages apart, where no processor looks ahead by
// itself: the square L outputs further on is asked for now.
template <class T, int L>
[[gnu::always_inline]] inline void load_square(const T* from, std::int64_t pitch,
                                               typename Simd<T, L>::Vec* square) {
#pragma GCC unroll 16
  for (int l = 0; l < L; ++l) {
    __builtin_prefetch(from + (L + l) * pitch);
    square[l] = Simd<T, L>::load(from + l * pitch);
  }
  transpose_square<T, L>(square);
}

// out[f][l] = from[l][f] for `count` outputs and the features of a tile.
template <class T, int L>
inline void load_edges(const T* from, std::int64_t n_in, std::int64_t count, std::int64_t features,
                       T* out, std::int64_t pitch) {
  using S = Simd<T, L>;
  if (count == L && features == L) {
    typename S::Vec square[L];
    load_square<T, L>(from, n_in, square);
    for (int f = 0; f < L; ++f) S::store(out + f * pitch, square[f]);
  } else {
    for (std::int64_t f = 0; f < features; ++f)
      for (std::int64_t l = 0; l < count; ++l) out[f * pitch + l] = from[l * n_in + f];
  }
}

// Fills the rows of a tile.
template <class T, int L>
inline void load_weights(const JetArgs<T>& args, std::int64_t model, const Tile& tile, int degree,
                         T* out) {
  using S = Simd<T, L>;
  const std::int64_t n_in = args.n_in, m = args.spline.grid + degree, pitch = tile.pitch;
  const std::int64_t first = tile.output * n_in + tile.feature, size = tile.rows * pitch;
  const T *r = args.r.at(model) + first, *c = args.c.at(model) + first;
  const T* b = args.b.at(model) + first * m;
  for (std::int64_t f = 0; f < tile.features; ++f) {
    T *rows = out + f * size, *own = rows + (1 + degree) * pitch;
    std::fill(rows, own, T(0));
    std::fill(own + m * pitch, rows + size, T(0));
    if (tile.outputs < pitch)
      for (std::int64_t j = 0; j < m; ++j)
        std::fill(own + j * pitch + tile.outputs, own + (j + 1) * pitch, T(0));
  }
  T scales[kTileFeatures<T> * L];
  for_pieces<L>(tile.outputs, [&](std::int64_t o, std::int64_t count) {
    load_edges<T, L>(c + o * n_in, n_in, count, tile.features, scales, L);
    if (args.residual) load_edges<T, L>(r + o * n_in, n_in, count, tile.features, out + o, size);
    for_pieces<L>(tile.features * m, [&](std::int64_t column, std::int64_t columns) {
      const T* from = b + o * n_in * m + column;
      T* rows = out + (1 + degree) * pitch + o;
      Place at(column, m);
      if (count == L && columns == L) {
        typename S::Vec square[L];
        load_square<T, L>(from, n_in * m, square);
        for (int q = 0; q < L; ++q, at.advance())
          S::store(rows + at.f * size + at.j * pitch, S::load(scales + at.f * L) * square[q]);
      } else {
        for (std::int64_t q = 0; q < columns; ++q, at.advance())
          for (std::int64_t l = 0; l < count; ++l)
            rows[at.f * size + at.j * pitch + l] = scales[at.f * L + l] * from[l * n_in * m + q];
      }
    });
  });
}

// Gradients of the rows of a tile to dr, dc = sum_m b dW and db = c dW.
template <class T, int L>
inline void store_gradients(const JetArgs<T>& args, std::int64_t model, const Tile& tile,
                            int degree, const T* in) {
  using S = Simd<T, L>;
  const std::int64_t n_in = args.n_in, m = args.spline.grid + degree, pitch = tile.pitch;
  const std::int64_t first = tile.output * n_in + tile.feature, size = tile.rows * pitch;
  const std::int64_t all = model * args.n_out * n_in + first;
  const T *c = args.c.at(model) + first, *b = args.b.at(model) + first * m;
  T *dr = args.dr + all, *dc = args.dc + all, *db = args.db + all * m;
  T scales[kTileFeatures<T> * L], sums[kTileFeatures<T> * L];
  for_pieces<L>(tile.outputs, [&](std::int64_t o, std::int64_t count) {
    load_edges<T, L>(c + o * n_in, n_in, count, tile.features, scales, L);
    std::fill_n(sums, tile.features * L, T(0));
    std::int64_t done = 0;  // columns that are in the sums: pieces may overlap
    for_pieces<L>(tile.features * m, [&](std::int64_t column, std::int64_t columns) {
      const T *weight = b + o * n_in * m + column, *rows = in + (1 + degree) * pitch + o;
      T* gradient = db + o * n_in * m + column;
      Place at(column, m);
      if (count == L && columns == L) {
        typename S::Vec weights[L], gradients[L];
        load_square<T, L>(weight, n_in * m, weights);
        // The sum and the scale of a feature stay in registers for all of its functions.
        typename S::Vec sum = S::load(sums + at.f * L), scale = S::load(scales + at.f * L);
        for (int q = 0; q < L; ++q) {
          const typename S::Vec value = S::load(rows + at.f * size + at.j * pitch);
          gradients[q] = scale * value;
          if (column + q >= done) sum += weights[q] * value;
          const std::int64_t f = at.f;
          at.advance();
          if (at.f == f && q + 1 < L) continue;
          S::store(sums + f * L, sum);
          if (q + 1 < L) sum = S::load(sums + at.f * L), scale = S::load(scales + at.f * L);
        }
        transpose_square<T, L>(gradients);
        for (int l = 0; l < L; ++l) S::store(gradient + l * n_in * m, gradients[l]);
      } else {
        for (std::int64_t q = 0; q < columns; ++q, at.advance())
          for (std::int64_t l = 0; l < count; ++l) {
            const T value = rows[at.f * size + at.j * pitch + l];
            gradient[l * n_in * m + q] = scales[at.f * L + l] * value;
            if (column + q >= done) sums[at.f * L + l] += weight[l * n_in * m + q] * value;
          }
      }
      done = column + columns;
    });
    store_columns<T, L>(sums, L, count, tile.features, dc + o * n_in, n_in);
    if (args.residual) {
      store_columns<T, L>(in + o, size, count, tile.features, dr + o * n_in, n_in);
    } else {
      for (std::int64_t l = 0; l < count; ++l)
        std::fill_n(dr + (o + l) * n_in, tile.features, T(0));
    }
  });
}

template <class T, int L>
inline void store_bias_gradient(const JetArgs<T>& args, std::int64_t model) {
  sum_columns<T, L>(args.g.at(model), args.n, args.n_out, args.dbias + model * args.n_out);
}

}  // namespace KANDLE_ISA
}  // namespace kandle
