// The layer of a basis without local support, forward and backward.
//
// Samples are the lanes. The functions of some features at a block of samples are tabulated, one
// row per function, and multiplied with the weights in tiles whose sums stay in registers:
//
//   y[o]    += W[row, o] B[row]          forward
//   dW[row, o] += B[row] g[o]            summed over the samples lane by lane, the lanes at the end
//   H[row]   = W[row, o] g[o]            backward in x: dx = sum of H[row] B'[row]
//
// The components of a jet are products with the same weights and tables of their own. SiLU is one
// more row, whose weights are r.
#include "global.h"

#include <algorithm>

#include "derivatives.h"
#include "functions.h"
#include "global_weights.h"
#include "products.h"
#include "scratch.h"
#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {
namespace {

template <class T, int D, int S>
struct Global : Products<T> {
  using Base = Products<T>;
  using Base::L, Base::B, Base::kTile;
  using typename Base::V, typename Base::Vec;
  static constexpr int C = 1 + D + S, kOrders = 1 + (D > 0) + (S > 0);
  // Rows of a table that stays in the first cache.
  static constexpr std::int64_t kTableRows = 48 * 1024 / (B * sizeof(T));
  // Lanes of weight gradients that stay in the second cache.
  static constexpr std::int64_t kGradientBytes = 256 * 1024;

  const JetArgs<T>& args;
  Tables<T> tables;
  const std::int64_t m, rows, n_in, n_out;  // functions, and with SiLU
  const Split outputs, row_tiles;

  explicit Global(const GlobalArgs<T>& a)
      : args(a.layer),
        tables(a.functions, a.layer.residual),
        m(a.functions.size()),
        rows(tables.rows),
        n_in(a.layer.n_in),
        n_out(a.layer.n_out),
        outputs(n_out, kTile),
        row_tiles(rows, kTile) {
    tables.place(scratch<T, 20>(2 * a.functions.count));
  }

  // ---- tables ----------------------------------------------------------------------------------

  // Component c of the jets of all rows, from the tables of the derivatives and the components of
  // x: B, then B' x_d, then B'' x_d^2 + B' x_dd. x[c] and out[c] are x_pitch and out_pitch apart.
  void components(const T* table, const T* x, std::int64_t x_pitch, std::int64_t samples, T* out,
                  std::int64_t out_pitch) const {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t s = 0; s < samples; s += L) {
        const T* at = table + row * B + s;
        T* to = out + row * B + s;
        V::store(to, V::load(at));
        const Vec first = V::load(at + rows * B);
        for (int d = 0; d < D; ++d) {
          const Vec xd = V::load(x + (1 + d) * x_pitch + s);
          V::store(to + (1 + d) * out_pitch, first * xd);
          if (d < S) {
            const Vec xdd = V::load(x + (1 + D + d) * x_pitch + s);
            V::store(to + (1 + D + d) * out_pitch,
                     V::load(at + 2 * rows * B) * (xd * xd) + first * xdd);
          }
        }
      }
  }

  // Rows x[c][i][s] of the given features and samples, filled up with zeros to whole vectors.
  void load_inputs(std::int64_t model, Range features, Range samples, T* x) const {
    const std::int64_t count = samples.end - samples.begin, size = features.end - features.begin;
    for (int c = 0; c < C; ++c)
      load_rows(args.x.at(model) + (c * args.n + samples.begin) * n_in + features.begin, n_in,
                count, size, x + c * size * B);
  }

  static void load_rows(const T* from, std::int64_t pitch, std::int64_t count, std::int64_t columns,
                        T* to) {
    columns_to_rows<T, L>(from, pitch, count, columns, to, B);
    const std::int64_t whole = round_up(count, L);
    if (count == whole) return;
    for (std::int64_t j = 0; j < columns; ++j)
      std::fill(to + j * B + count, to + j * B + whole, T(0));
  }

  // ---- forward ---------------------------------------------------------------------------------

  void forward(std::int64_t model, Range samples) const {
    const std::int64_t size = rows * n_in;  // weights of one output
    T* packed = scratch<T, 21>(n_out * size);
    for (std::int64_t t = 0; t < outputs.parts; ++t) {
      const std::int64_t first = outputs.begin(t), width = outputs.count(t);
      T* tile = packed + first * size;
      for_weights(args, m, model, {0, n_in}, {first, first + width},
                  [&](std::int64_t i, std::int64_t row, std::int64_t o, T weight) {
                    tile[(i * rows + row) * width + o - first] = weight;
                  });
    }
    const Split groups(n_in, std::max<std::int64_t>(kTableRows / (C * rows), 1));
    const std::int64_t most = n_in / groups.parts + 1;
    T* x = scratch<T, 22>(C * most * B);
    T* table = scratch<T, 23>((kOrders * rows + C * most * rows) * B);
    T* jets = C == 1 ? table : table + kOrders * rows * B;
    T* y = scratch<T, 24>(C * n_out * B);
    const T* bias = args.bias.at(model);
    for (std::int64_t start = samples.begin; start < samples.end; start += B) {
      const Range block{start, std::min(start + B, samples.end)};
      const std::int64_t count = block.end - block.begin, whole = round_up(count, L);
      for (std::int64_t o = 0; o < n_out; ++o) std::fill_n(y + o * B, whole, bias[o]);
      std::fill_n(y + n_out * B, (C - 1) * n_out * B, T(0));
      for (std::int64_t group = 0; group < groups.parts; ++group) {
        const std::int64_t begin = groups.begin(group), features = groups.count(group);
        load_inputs(model, {begin, begin + features}, block, x);
        for (std::int64_t i = 0; i < features; ++i) {
          T* own = C == 1 ? table + i * rows * B : table;
          tables.template fill<kOrders>(x + i * B, whole, B, own);
          if constexpr (C > 1)
            components(own, x + i * B, features * B, whole, jets + i * rows * B,
                       features * rows * B);
        }
        for (std::int64_t t = 0; t < outputs.parts; ++t)
          with_count<kTile>(outputs.count(t), [&](auto width) {
            constexpr int O = width();
            const T* w = packed + outputs.begin(t) * size + begin * rows * O;
            for (int c = 0; c < C; ++c)
              Base::template multiply<O>(w, jets + c * features * rows * B, features * rows,
                                         whole / L, y + (c * n_out + outputs.begin(t)) * B);
          });
      }
      T* out = args.y + (model * C * args.n + block.begin) * n_out;
      for (int c = 0; c < C; ++c)
        rows_to_columns<T, L>(y + c * n_out * B, B, count, n_out, out + c * args.n * n_out, n_out);
    }
  }

  // ---- backward --------------------------------------------------------------------------------

  // Adds to dx[c] what Rows rows contribute: H[row] = sum of w[o][row] g[o], times the derivatives.
  // `Component` is the one that g belongs to.
  template <int Rows, int Component>
  void add_inputs(const T* w, const T* g, const T* table, const T* x, std::int64_t pitch,
                  std::int64_t vectors, T* dx) const {
    for_vectors<Base::template kBeside<Rows>>(vectors, [&](std::int64_t from, auto width) {
      constexpr int N = width();
      Vec h[Rows][N] = {};
      const T *weight = w, *at = g + from * L;
      for (std::int64_t o = 0; o < n_out; ++o, weight += Rows, at += B) {
        Vec gradient[N];
        for (int v = 0; v < N; ++v) gradient[v] = V::load(at + v * L);
#pragma GCC unroll 8
        for (int row = 0; row < Rows; ++row)
          for (int v = 0; v < N; ++v) h[row][v] += weight[row] * gradient[v];
      }
      const auto times = [&](int order, int v) {  // sum of H[row] B^(order)[row]
        const T* derivative = table + order * rows * B + (from + v) * L;
        Vec sum = h[0][v] * V::load(derivative);
        for (int row = 1; row < Rows; ++row) sum += h[row][v] * V::load(derivative + row * B);
        return sum;
      };
      for (int v = 0; v < N; ++v) {
        const auto load = [&](int c) { return V::load(x + c * pitch + (from + v) * L); };
        const auto add = [&](int c, Vec value) {
          T* to = dx + c * pitch + (from + v) * L;
          V::store(to, V::load(to) + value);
        };
        const Vec first = times(1, v);
        add(Component, first);
        if constexpr (Component > 0) {
          constexpr int direction = Component > D ? Component - D : Component;
          const Vec second = times(2, v), xd = load(direction);
          if constexpr (Component > D) {
            add(0, times(3, v) * (xd * xd) + second * load(Component));
            add(direction, T(2) * (second * xd));
          } else {
            add(0, second * xd);
          }
        }
      }
    });
  }

  // w[tile][o][row] of one feature.
  template <int Component = 0>
  void input_gradient(const T* w, const T* g, const T* table, const T* x, std::int64_t pitch,
                      std::int64_t vectors, T* dx) const {
    for (std::int64_t t = 0; t < row_tiles.parts; ++t)
      with_count<kTile>(row_tiles.count(t), [&](auto height) {
        const std::int64_t row = row_tiles.begin(t);
        add_inputs<height(), Component>(w + row * n_out, g + Component * n_out * B, table + row * B,
                                        x, pitch, vectors, dx);
      });
    if constexpr (Component + 1 < C)
      input_gradient<Component + 1>(w, g, table, x, pitch, vectors, dx);
  }

  template <int Orders>
  void backward_of(std::int64_t model, Range features) const {
    const std::int64_t size = rows * n_out, lanes_size = round_up(size, L) * L;
    const std::int64_t fitting =
        kGradientBytes / (lanes_size * static_cast<std::int64_t>(sizeof(T)));
    const Split groups(features.end - features.begin, std::clamp<std::int64_t>(fitting, 1, 64));
    const std::int64_t most = (features.end - features.begin) / groups.parts + 1;
    T* x = scratch<T, 22>(2 * C * most * B);
    T* dx = x + C * most * B;
    T* table = scratch<T, 23>((Orders + C) * rows * B);
    T* jets = C == 1 ? table : table + Orders * rows * B;
    T* g = scratch<T, 24>(C * n_out * B);
    T* lanes = scratch<T, 25>(args.want_w ? most * lanes_size : 1);
    T* packed = scratch<T, 21>(args.want_x ? most * size : 1);
    T* bias_lanes = scratch<T, 27>(round_up(n_out, L) * L);
    std::fill_n(bias_lanes, round_up(n_out, L) * L, T(0));
    for (std::int64_t group = 0; group < groups.parts; ++group) {
      const Range range{features.begin + groups.begin(group),
                        features.begin + groups.begin(group + 1)};
      const std::int64_t count = range.end - range.begin, pitch = count * B;
      if (args.want_w) std::fill_n(lanes, count * lanes_size, T(0));
      if (args.want_x) pack_by_rows(model, range, packed);
      for (std::int64_t start = 0; start < args.n; start += B) {
        const Range block{start, std::min(start + B, args.n)};
        const std::int64_t samples = block.end - block.begin, whole = round_up(samples, L);
        load_inputs(model, range, block, x);
        for (int c = 0; c < C; ++c)
          load_rows(args.g.at(model) + (c * args.n + start) * n_out, n_out, samples, n_out,
                    g + c * n_out * B);
        if (args.want_w && range.begin == 0) Base::add_lanes(g, n_out, whole / L, bias_lanes);
        if (args.want_x) std::fill_n(dx, C * pitch, T(0));
        for (std::int64_t i = 0; i < count; ++i) {
          const T* own = x + i * B;
          tables.template fill<Orders>(own, whole, B, table);
          if (args.want_w) {
            if constexpr (C > 1) components(table, own, pitch, whole, jets, rows * B);
            for (int c = 0; c < C; ++c)
              Base::weight_gradient(jets + c * rows * B, rows, g + c * n_out * B, n_out, whole / L,
                                    lanes + i * lanes_size);
          }
          if constexpr (Orders > kOrders)
            input_gradient(packed + i * size, g, table, own, pitch, whole / L, dx + i * B);
        }
        if (!args.want_x) continue;
        T* out = args.dx + (model * C * args.n + start) * n_in + range.begin;
        for (int c = 0; c < C; ++c)
          rows_to_columns<T, L>(dx + c * pitch, B, samples, count, out + c * args.n * n_in, n_in);
      }
      if (args.want_w)
        for (std::int64_t i = 0; i < count; ++i) {
          Base::sum_lanes(lanes + i * lanes_size, size);
          store_gradients(args, m, model, range.begin + i, lanes + i * lanes_size);
        }
    }
    if (!args.want_w || features.begin > 0) return;
    Base::sum_lanes(bias_lanes, n_out);
    std::copy_n(bias_lanes, n_out, args.dbias + model * n_out);
  }

  void backward(std::int64_t model, Range features) const {
    if (args.want_x) return backward_of<kOrders + 1>(model, features);
    backward_of<kOrders>(model, features);
  }

  // packed[feature][tile of rows][o][row].
  void pack_by_rows(std::int64_t model, Range features, T* packed) const {
    std::int64_t* places = scratch<std::int64_t, 26>(2 * rows);
    for (std::int64_t t = 0; t < row_tiles.parts; ++t)
      for (std::int64_t row = row_tiles.begin(t); row < row_tiles.begin(t + 1); ++row) {
        places[2 * row] = row_tiles.begin(t) * n_out + row - row_tiles.begin(t);
        places[2 * row + 1] = row_tiles.count(t);
      }
    for_weights(
        args, m, model, features, {0, n_out},
        [&](std::int64_t i, std::int64_t row, std::int64_t o, T weight) {
          packed[(i - features.begin) * rows * n_out + places[2 * row] + o * places[2 * row + 1]] =
              weight;
        });
  }
};

}  // namespace

template <class T>
void global_forward(const GlobalArgs<T>& args, std::int64_t model, std::int64_t begin,
                    std::int64_t end) {
  with_derivatives(args.layer.first, args.layer.second, [&](auto first, auto second) {
    Global<T, first(), second()>(args).forward(model, {begin, end});
  });
}

template <class T>
void global_backward(const GlobalArgs<T>& args, std::int64_t model, std::int64_t begin,
                     std::int64_t end) {
  with_derivatives(args.layer.first, args.layer.second, [&](auto first, auto second) {
    Global<T, first(), second()>(args).backward(model, {begin, end});
  });
}

#define KANDLE_INSTANTIATE(T)                                                                      \
  template void global_forward<T>(const GlobalArgs<T>&, std::int64_t, std::int64_t, std::int64_t); \
  template void global_backward<T>(const GlobalArgs<T>&, std::int64_t, std::int64_t, std::int64_t)

KANDLE_INSTANTIATE(float);
KANDLE_INSTANTIATE(double);

}  // namespace KANDLE_ISA
}  // namespace kandle
