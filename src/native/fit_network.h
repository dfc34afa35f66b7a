// A network in the squared error: blocks of samples go through all layers and back.
#pragma once

#include <algorithm>
#include <new>

#include "fit.h"
#include "scratch.h"
#include "simd.h"

namespace kandle {
namespace KANDLE_ISA {

// Numbers kept of a chunk of samples: the lanes of the loss, then what its layers keep.
template <class T, class Layer>
std::int64_t kept_size(const FitArgs<T>& a) {
  std::int64_t size = kLanes<T>;
  if (!a.want_w) return size;
  for (std::int64_t l = 0; l < a.layer_count; ++l) size += Layer(a, l).kept();
  return size;
}

// A model's layers, packed, and memory for one block of samples.
template <class T, class Layer>
class Network {
 public:
  // `packed` says that the thread's last network was the same: its layers are still in its scratch.
  Network(const FitArgs<T>& a, std::int64_t model, bool packed)
      : args_(a),
        x_(a.x.at(model)),
        y_(a.y.at(model)),
        weight_(a.weight.at(model)),
        size_(kept_size<T, Layer>(a)),
        block_(Layer::block(a)),
        layers_(scratch<Layer, 0>(a.layer_count)) {
    std::int64_t memory = 0, width = a.layers[0].n_in;
    for (std::int64_t l = 0; l < a.layer_count; ++l) {
      if (!packed) new (layers_ + l) Layer(a, l);
      memory += layers_[l].memory();
      width = std::max(width, a.layers[l].n_out);
    }
    T* own = scratch<T, 0>(memory + 2 * width * block_);
    for (std::int64_t l = 0; l < a.layer_count; own += layers_[l++].memory())
      if (!packed) layers_[l].pack(model, own);
    columns_[0] = own, columns_[1] = own + width * block_;
  }

  // The sums of a chunk of samples.
  void sum(Range samples, T* sums) const {
    if (samples.begin == samples.end) std::fill_n(sums, size_, T(0));
    for (std::int64_t start = samples.begin; start < samples.end; start += block_)
      add_block(start, std::min(block_, samples.end - start), start == samples.begin, sums);
  }

 private:
  using V = Simd<T, kLanes<T>>;
  static constexpr int L = kLanes<T>;

  // Columns [feature][sample] of rows of a matrix; past the end of a block, points are 0.
  void load(const T* from, std::int64_t rows, std::int64_t features, T* to) const {
    for (std::int64_t i = 0; i < features; i += L)
      load_columns<T, L>(from + i, features, rows, std::min<std::int64_t>(L, features - i),
                         to + i * block_, block_);
    clear(to, rows, features);
  }
  void clear(T* columns, std::int64_t rows, std::int64_t features) const {
    const std::int64_t whole = round_up(rows, L);
    for (std::int64_t i = 0; rows < whole && i < features; ++i)
      std::fill(columns + i * block_ + rows, columns + i * block_ + whole, T(0));
  }

  void add_block(std::int64_t start, std::int64_t rows, bool fresh, T* sums) const {
    const std::int64_t last = args_.layer_count - 1, whole = round_up(rows, L);
    const std::int64_t n_in = args_.layers[0].n_in, n_out = args_.layers[last].n_out;
    T *from = columns_[0], *to = columns_[1];
    load(x_ + start * n_in, rows, n_in, from);
    for (std::int64_t l = 0; l <= last; ++l, std::swap(from, to)) {
      layers_[l].forward(from, whole, to);
      clear(to, rows, args_.layers[l].n_out);
    }
    load(y_ + start * n_out, rows, n_out, to);
    add_errors(weight_ + start, rows, n_out, fresh, to, from, sums);
    if (!args_.want_w) return;
    T* of = sums + size_;
    for (std::int64_t l = last; l >= 0; --l, std::swap(from, to)) {
      of -= layers_[l].kept();
      layers_[l].backward(from, whole, fresh, of, l > 0 ? to : nullptr);
    }
  }

  // Adds to the lanes of the loss, and replaces the outputs by the gradients in them.
  void add_errors(const T* weight, std::int64_t rows, std::int64_t n_out, bool fresh,
                  const T* targets, T* outputs, T* sums) const {
    T* weights = scratch<T, 2>(block_);
    std::fill(std::copy_n(weight, rows, weights), weights + block_, T(0));
    typename V::Vec loss{};
    for (std::int64_t o = 0; o < n_out; ++o)
      for (std::int64_t s = 0; s < rows; s += L) {
        const auto error = V::load(outputs + o * block_ + s) - V::load(targets + o * block_ + s);
        const auto weighted = V::load(weights + s) * error;
        loss += weighted * error;
        V::store(outputs + o * block_ + s, weighted + weighted);
      }
    V::store(sums, fresh ? loss : V::load(sums) + loss);
  }

  const FitArgs<T>& args_;
  const T *x_, *y_, *weight_;
  const std::int64_t size_, block_;  // numbers that are kept, samples of a block
  Layer* layers_;
  T* columns_[2];
};

}  // namespace KANDLE_ISA
}  // namespace kandle
