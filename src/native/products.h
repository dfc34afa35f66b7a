// Products of tables of functions with weights or gradients, samples being the lanes: sums stay in
// registers while a tile of rows and outputs meets the samples of a block.
#pragma once

#include <cstdint>
#include <type_traits>

#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

// `size` items in parts of at most `most`, as even as they can be.
struct Split {
  std::int64_t size, parts;

  Split(std::int64_t size, std::int64_t most) : size(size), parts((size + most - 1) / most) {}
  std::int64_t begin(std::int64_t part) const { return size * part / parts; }
  std::int64_t count(std::int64_t part) const { return begin(part + 1) - begin(part); }
};

// Calls visit(from, vectors) with 1 or Most vectors, a compile-time constant, until all are done.
template <int Most, class Visit>
[[gnu::always_inline]] inline void for_vectors(std::int64_t vectors, const Visit& visit) {
  std::int64_t from = 0;
  for (; from + Most <= vectors; from += Most) visit(from, std::integral_constant<int, Most>{});
  if constexpr (Most > 1)
    for (; from < vectors; ++from) visit(from, std::integral_constant<int, 1>{});
}

// Columns of a row-major matrix to rows, and back, in squares as wide as the columns allow.
template <class T, int L>
void columns_to_rows(const T* from, std::int64_t pitch, std::int64_t count, std::int64_t columns,
                     T* to, std::int64_t to_pitch) {
  for (; columns >= L; columns -= L, from += L, to += L * to_pitch)
    load_columns<T, L>(from, pitch, count, L, to, to_pitch);
  if (columns <= 0) return;
  if constexpr (L > 2) {
    columns_to_rows<T, L / 2>(from, pitch, count, columns, to, to_pitch);
  } else {
    load_columns<T, L>(from, pitch, count, columns, to, to_pitch);
  }
}

template <class T, int L>
void rows_to_columns(const T* from, std::int64_t pitch, std::int64_t count, std::int64_t columns,
                     T* to, std::int64_t to_pitch) {
  for (; columns >= L; columns -= L, from += L * pitch, to += L)
    store_columns<T, L>(from, pitch, count, L, to, to_pitch);
  if (columns <= 0) return;
  if constexpr (L > 2) {
    rows_to_columns<T, L / 2>(from, pitch, count, columns, to, to_pitch);
  } else {
    store_columns<T, L>(from, pitch, count, columns, to, to_pitch);
  }
}

// Tables have rows of B samples.
template <class T>
struct Products {
  static constexpr int L = kLanes<T>;
  static constexpr std::int64_t kVectors = 24, B = kVectors * L;  // samples of a block
  static constexpr int kSums = kRegisters == 32 ? 24 : 12;        // vectors of sums in registers
  static constexpr int kTile = kSums / 3;                         // rows of sums, at most
  static constexpr int kSumOutputs = kRegisters == 32 ? 4 : 3, kSumRows = kSums / kSumOutputs;
  using V = Simd<T, L>;
  using Vec = typename V::Vec;

  // Vectors of samples beside `Rows` rows of sums.
  template <int Rows>
  static constexpr int kBeside = Rows > kTile / 2   ? 3
                                 : Rows > kTile / 4 ? 6
                                                    : 12;

  // y[o] += sum over the table's rows of w[row][o] B[row] for the outputs of one tile.
  template <int Outputs>
  static void multiply(const T* w, const T* table, std::int64_t table_rows, std::int64_t vectors,
                       T* y) {
    for_vectors<kBeside<Outputs>>(vectors, [&](std::int64_t from, auto width) {
      constexpr int N = width();
      Vec sums[Outputs][N];
      for (int o = 0; o < Outputs; ++o)
        for (int v = 0; v < N; ++v) sums[o][v] = V::load(y + o * B + (from + v) * L);
      const T *weight = w, *at = table + from * L;
      for (std::int64_t row = 0; row < table_rows; ++row, weight += Outputs, at += B) {
        Vec value[N];
        for (int v = 0; v < N; ++v) value[v] = V::load(at + v * L);
#pragma GCC unroll 8
        for (int o = 0; o < Outputs; ++o)
          for (int v = 0; v < N; ++v) sums[o][v] += weight[o] * value[v];
      }
      for (int o = 0; o < Outputs; ++o)
        for (int v = 0; v < N; ++v) V::store(y + o * B + (from + v) * L, sums[o][v]);
    });
  }

  // lanes[row] += the row's vectors.
  static void add_lanes(const T* table, std::int64_t rows, std::int64_t vectors, T* lanes) {
    for (std::int64_t row = 0; row < rows; ++row) {
      Vec sum = V::load(lanes + row * L);
      for (std::int64_t v = 0; v < vectors; ++v) sum += V::load(table + row * B + v * L);
      V::store(lanes + row * L, sum);
    }
  }

  // The sum of each of `count` vectors, in their place; there is room for a multiple of L vectors.
  static void sum_lanes(T* lanes, std::int64_t count) {
    for (std::int64_t at = 0; at < count; at += L)
      V::store(lanes + at, lane_sums<T, L>(lanes + at * L));
  }

  // lanes[row][o] += B[row] g[o], sample by sample, for Rows rows and Outputs outputs.
  template <int Rows, int Outputs>
  static void add_products(const T* table, const T* g, std::int64_t vectors, std::int64_t n_out,
                           T* lanes) {
    Vec sums[Rows][Outputs];
    for (int row = 0; row < Rows; ++row)
      for (int o = 0; o < Outputs; ++o) sums[row][o] = V::load(lanes + (row * n_out + o) * L);
    for (std::int64_t v = 0; v < vectors; ++v) {
      Vec gradient[Outputs];
      for (int o = 0; o < Outputs; ++o) gradient[o] = V::load(g + o * B + v * L);
#pragma GCC unroll 6
      for (int row = 0; row < Rows; ++row) {
        const Vec value = V::load(table + row * B + v * L);
        for (int o = 0; o < Outputs; ++o) sums[row][o] += value * gradient[o];
      }
    }
    for (int row = 0; row < Rows; ++row)
      for (int o = 0; o < Outputs; ++o) V::store(lanes + (row * n_out + o) * L, sums[row][o]);
  }

  static void weight_gradient(const T* table, std::int64_t rows, const T* g, std::int64_t n_out,
                              std::int64_t vectors, T* lanes) {
    const Split across(rows, kSumRows), along(n_out, kSumOutputs);
    for (std::int64_t t = 0; t < across.parts; ++t)
      with_count<kSumRows>(across.count(t), [&](auto height) {
        for (std::int64_t u = 0; u < along.parts; ++u)
          with_count<kSumOutputs>(along.count(u), [&](auto width) {
            const std::int64_t row = across.begin(t), o = along.begin(u);
            add_products<height(), width()>(table + row * B, g + o * B, vectors, n_out,
                                            lanes + (row * n_out + o) * L);
          });
      });
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
