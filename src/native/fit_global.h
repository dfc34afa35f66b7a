// A layer of a basis without local support on one block of samples, forward and back.
//
// Numbers of a block are stored feature by feature, [feature][sample], and lanes run over samples.
// The functions are tabulated once for both passes, row by row, and multiplied with weights in
// tiles whose sums stay in registers (products.h). The gradients of the weights of a tile are sums
// over the samples of the block: what is kept of it is one number per weight.
#pragma once

#include <algorithm>

#include "fit.h"
#include "fit_functions.h"
#include "global_weights.h"
#include "products.h"
#include "scratch.h"

namespace kandle {
namespace KANDLE_ISA {

template <class T>
class FitGlobal : Products<T> {
 public:
  using Base = Products<T>;
  using Base::B, Base::kTile, Base::L;

  // Rows that go through all layers together, are summed together and may be summed alone.
  static std::int64_t block(const FitArgs<T>&) { return B; }
  static std::int64_t chunk(const FitArgs<T>&) { return B; }
  static std::int64_t piece(const FitArgs<T>&) { return B; }

  static bool takes(const JetArgs<T>& a, const Functions& functions) {
    // With more functions than this, all inputs together, or more weights, the tables of a block or
    // the sums leave the second cache, and layers one by one are faster.
    constexpr std::int64_t kMostRows = 256, kMostWeights = 4096;
    const auto fits = [](std::int64_t some, std::int64_t others, std::int64_t most) {
      return 1 <= some && 1 <= others && some <= most && others <= most / some;
    };
    return fits(a.n_in, functions.size(), kMostRows) &&
           fits(a.n_out, a.n_in * functions.size(), kMostWeights);
  }

  FitGlobal(const FitArgs<T>& a, std::int64_t l)
      : args_(a.layers[l]),
        described_(a.functions[l]),
        n_in_(args_.n_in),
        n_out_(args_.n_out),
        rows_(described_.size() + args_.residual),
        outputs_(n_out_, kTile),
        sum_outputs_(n_out_, kSumOutputs),
        functions_(described_, args_.residual),
        sums_size_(sums_size()) {}

  std::int64_t memory() const {
    return constants_size() + weights_size() + slopes_size() +
           n_in_ * (rows_ + Functions_::kSlopes) * B;
  }
  std::int64_t kept() const { return sums_size_ + n_out_ * L; }

  void pack(std::int64_t model, T* memory) {
    bias_ = args_.bias.at(model);
    functions_.place(memory);
    weights_ = memory + constants_size();
    slopes_ = weights_ + weights_size();
    table_ = slopes_ + slopes_size();
    slope_table_ = table_ + n_in_ * rows_ * B;
    for (std::int64_t t = 0; t < outputs_.parts; ++t) pack_tile(model, t);
  }

  // y[o][s] of the points x[i][s]; `count` is a multiple of L.
  void forward(const T* x, std::int64_t count, T* y) const {
    for (std::int64_t i = 0; i < n_in_; ++i)
      functions_.fill(x + i * B, count, B, values(i), slopes(i));
    for (std::int64_t o = 0; o < n_out_; ++o) std::fill_n(y + o * B, count, bias_[o]);
    for (std::int64_t t = 0; t < outputs_.parts; ++t)
      with_count<kTile>(outputs_.count(t), [&](auto width) {
        Base::template multiply<width()>(weights_ + t * kTile * rows_ * n_in_, table_,
                                         n_in_ * rows_, count / L, y + outputs_.begin(t) * B);
      });
  }

  // Adds to the sums of the weights, which begin at zero if they are `fresh`, and stores dx[i][s],
  // unless null, from g[o][s].
  void backward(const T* g, std::int64_t count, bool fresh, T* kept, T* dx) const {
    if (fresh) std::fill_n(kept, this->kept(), T(0));
    if (dx)
      for (std::int64_t i = 0; i < n_in_; ++i) input_gradient(i, g, count / L, dx + i * B);
    for_sums(kept, [&](std::int64_t row, auto height, std::int64_t o, auto width, T* sums) {
      add_products<height(), width()>(table_ + row * B, g + o * B, count / L, sums);
    });
    Base::add_lanes(g, n_out_, count / L, kept + sums_size_);
  }

  // From sums to gradients, all at once.
  std::int64_t parts() const { return 1; }
  Range kept_of(std::int64_t) const { return {0, kept()}; }
  void finish(std::int64_t model, std::int64_t, T* kept) const {
    T* dw = scratch<T, 2>(n_in_ * rows_ * n_out_);
    for_sums(kept, [&](std::int64_t row, auto height, std::int64_t o, auto width, T* sums) {
      for (int j = 0; j < height(); ++j)
        for (int k = 0; k < width(); ++k) dw[(row + j) * n_out_ + o + k] = sums[j * width() + k];
    });
    for (std::int64_t i = 0; i < n_in_; ++i)
      store_gradients(args_, described_.size(), model, i, dw + i * rows_ * n_out_);
    const T* lanes = kept + sums_size_;
    for (std::int64_t o = 0; o < n_out_; ++o) {
      T sum = T(0);
      for (int l = 0; l < L; ++l) sum += lanes[o * L + l];
      args_.dbias[model * n_out_ + o] = sum;
    }
  }

 private:
  using typename Base::V, typename Base::Vec;
  using Functions_ = FitFunctions<T>;
  // A tile of weights whose gradients are summed in registers.
  static constexpr int kSums = kRegisters == 32 ? 16 : 8, kSumOutputs = kRegisters == 32 ? 4 : 2;

  std::int64_t constants_size() const { return round_up(2 * described_.count, L); }
  std::int64_t weights_size() const { return round_up(outputs_.parts * kTile * n_in_ * rows_, L); }
  std::int64_t slope_rows() const { return functions_.sloped() + functions_.others(); }
  std::int64_t slopes_size() const {
    return round_up(outputs_.parts * kTile * n_in_ * slope_rows(), L);
  }
  std::int64_t sums_size() const {
    std::int64_t size = 0;
    for_sums(nullptr, [&](std::int64_t, auto height, std::int64_t, auto width, T*) {
      size += round_up(height() * width(), L);
    });
    return size;
  }

  T* values(std::int64_t i) const { return table_ + i * rows_ * B; }
  T* slopes(std::int64_t i) const { return slope_table_ + i * Functions_::kSlopes * B; }

  // Calls work(row, height, o, width, sums) for all tiles of weights.
  template <class Work>
  [[gnu::always_inline]] void for_sums(T* sums, const Work& work) const {
    for (std::int64_t u = 0; u < sum_outputs_.parts; ++u)
      with_count<kSumOutputs>(sum_outputs_.count(u), [&](auto width) {
        constexpr int kHigh = kSums / width();
        const Split tiles(n_in_ * rows_, kHigh);
        for (std::int64_t t = 0; t < tiles.parts; ++t)
          with_count<kHigh>(tiles.count(t), [&](auto height) {
            work(tiles.begin(t), height, sum_outputs_.begin(u), width, sums);
            sums += round_up(height() * width(), L);
          });
      });
  }

  // sums[row][o] += the sum over samples of B[row] g[o].
  template <int Rows, int Outputs>
  static void add_products(const T* table, const T* g, std::int64_t vectors, T* sums) {
    constexpr int kCount = (Rows * Outputs + L - 1) / L * L;
    Vec lanes[kCount] = {};
    for (std::int64_t v = 0; v < vectors; ++v) {
      Vec gradient[Outputs];
      for (int o = 0; o < Outputs; ++o) gradient[o] = V::load(g + o * B + v * L);
#pragma GCC unroll 16
      for (int row = 0; row < Rows; ++row) {
        const Vec value = V::load(table + row * B + v * L);
        for (int o = 0; o < Outputs; ++o) lanes[row * Outputs + o] += value * gradient[o];
      }
    }
#pragma GCC unroll 4
    for (int at = 0; at < kCount; at += L) {
      detail::fold_all<T, L, 1>(lanes + at);
      V::store(sums + at, V::load(sums + at) + lanes[at]);
    }
  }

  // ---- the gradient of the inputs
  // ----------------------------------------------------------------

  // The weights of a tile of outputs: weights_[tile][feature][row][output], and from these, widened
  // to kTile outputs, slopes_[tile][feature][row][output].
  void pack_tile(std::int64_t model, std::int64_t t) {
    const std::int64_t m = described_.size(), first = outputs_.begin(t), width = outputs_.count(t);
    T *packed = weights_ + t * kTile * rows_ * n_in_, *wide = scratch<T, 2>(rows_ * kTile);
    for_weights(args_, m, model, {0, n_in_}, {first, first + width},
                [&](std::int64_t i, std::int64_t row, std::int64_t o, T weight) {
                  packed[(i * rows_ + row) * width + o - first] = weight;
                });
    std::fill_n(wide, rows_ * kTile, T(0));
    T* out = slopes_ + t * n_in_ * slope_rows() * kTile;
    for (std::int64_t i = 0; i < n_in_; ++i, out += slope_rows() * kTile) {
      for (std::int64_t row = 0; row < rows_; ++row, packed += width)
        for (std::int64_t o = 0; o < width; ++o) wide[row * kTile + o] = packed[o];
      functions_.template slope_weights<kTile>(wide, out);
      if (args_.residual) std::copy_n(wide + m * kTile, kTile, out + (slope_rows() - 1) * kTile);
    }
  }

  // h[row] = sum of w[row][o] g[o] over all tiles of outputs.
  template <int Rows, int N>
  [[gnu::always_inline]] void weighted(const T* w, const T* g, Vec (&h)[Rows][N]) const {
    for (std::int64_t t = 0; t < outputs_.parts; ++t, w += n_in_ * slope_rows() * kTile) {
      const T* const end = w + outputs_.count(t);
      for (const T* weight = w; weight != end; ++weight, g += B) {
        Vec gradient[N];
#pragma GCC unroll 12
        for (int v = 0; v < N; ++v) gradient[v] = V::load(g + v * L);
#pragma GCC unroll 8
        for (int row = 0; row < Rows; ++row)
#pragma GCC unroll 12
          for (int v = 0; v < N; ++v) h[row][v] += weight[row * kTile] * gradient[v];
      }
    }
  }

  template <int Rows, bool Gaussian>
  void add_functions(const T* w, const T* g, const T* table, const T* x, const T* centers,
                     std::int64_t vectors, bool first, T* dx) const {
    for_vectors<Base::template kBeside<Rows>>(vectors, [&](std::int64_t from, auto width) {
      constexpr int N = width();
      Vec h[Rows][N] = {};
      weighted<Rows, N>(w, g + from * L, h);
#pragma GCC unroll 12
      for (int v = 0; v < N; ++v) {
        const std::int64_t at = (from + v) * L;
        Vec sum = first ? Vec{} : V::load(dx + at);
#pragma GCC unroll 8
        for (int row = 0; row < Rows; ++row) {
          const Vec product = h[row][v] * V::load(table + row * B + at);
          if constexpr (Gaussian) {
            sum += product * (V::load(x + at) - centers[row]);
          } else {
            sum += product;
          }
        }
        V::store(dx + at, sum);
      }
    });
  }

  // dx = u' (dx + h[1]) + h[SiLU] SiLU', as far as the layer has them.
  template <bool Polynomial, bool Residual>
  void add_others(const T* w, const T* g, const T* slopes, std::int64_t vectors, T* dx) const {
    constexpr int kRows = Polynomial + Residual;
    for_vectors<6>(vectors, [&](std::int64_t from, auto width) {
      constexpr int N = width();
      Vec h[kRows][N] = {};
      weighted<kRows, N>(w, g + from * L, h);
#pragma GCC unroll 12
      for (int v = 0; v < N; ++v) {
        const std::int64_t at = (from + v) * L;
        Vec sum = V::load(dx + at);
        if constexpr (Polynomial)
          sum = V::load(slopes + Functions_::kArgument * B + at) * (sum + h[0][v]);
        if constexpr (Residual)
          sum += h[kRows - 1][v] * V::load(slopes + Functions_::kResidual * B + at);
        V::store(dx + at, sum);
      }
    });
  }

  void input_gradient(std::int64_t i, const T* g, std::int64_t vectors, T* dx) const {
    const std::int64_t sloped = functions_.sloped();
    const T *w = slopes_ + i * slope_rows() * kTile, *extra = slopes(i);
    const T *table = values(i) + functions_.first_sloped() * B, *centers = functions_.constants;
    const Split tiles(sloped, kTile);
    if (tiles.parts == 0) std::fill_n(dx, vectors * L, T(0));
    for (std::int64_t t = 0; t < tiles.parts; ++t)
      with_count<kTile>(tiles.count(t), [&](auto height) {
        const std::int64_t row = tiles.begin(t);
        if (functions_.gaussian()) {
          add_functions<height(), true>(w + row * kTile, g, table + row * B, extra, centers + row,
                                        vectors, t == 0, dx);
        } else {
          add_functions<height(), false>(w + row * kTile, g, table + row * B, extra, centers,
                                         vectors, t == 0, dx);
        }
      });
    w += sloped * kTile;
    if (!described_.polynomial()) {
      if (args_.residual) add_others<false, true>(w, g, extra, vectors, dx);
    } else if (args_.residual) {
      add_others<true, true>(w, g, extra, vectors, dx);
    } else {
      add_others<true, false>(w, g, extra, vectors, dx);
    }
  }

  const JetArgs<T>& args_;
  const Functions described_;
  const std::int64_t n_in_, n_out_, rows_;
  const Split outputs_, sum_outputs_;
  Functions_ functions_;
  const std::int64_t sums_size_;
  const T* bias_;
  T *weights_, *slopes_;     // packed
  T *table_, *slope_table_;  // of a block
};

}  // namespace KANDLE_ISA
}  // namespace kandle
