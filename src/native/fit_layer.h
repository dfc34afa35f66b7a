// A layer of cubics in the squared error of a network: one of two layouts, by its outputs.
#pragma once

#include <new>

#include "fit.h"
#include "fit_slim.h"
#include "fit_wide.h"

#if KANDLE_AVX512

namespace kandle {
namespace KANDLE_ISA {

// What a layer computes for one block of samples and what is kept of a chunk of blocks, forwarded
// to its layout. Numbers of a block are columns, [feature][sample].
template <class T>
class FitLayer {
 public:
  static constexpr int L = kLanes<T>;

  static bool takes(const JetArgs<T>& a) {
    constexpr std::int64_t kMost = 64, kMostCells = 512;  // inputs and outputs; cells
    // With more weights, sums of chunks leave the caches, and layers one by one are faster.
    constexpr std::int64_t kMostBytes = 3 << 19;
    const std::int64_t cells = cell_count(a.spline);
    return a.spline.degree == 3 && cells <= kMostCells && 1 <= a.n_in && a.n_in <= kMost &&
           1 <= a.n_out && a.n_out <= kMost &&
           a.n_in * cells * round_up(a.n_out, L) * static_cast<std::int64_t>(sizeof(T)) <=
               kMostBytes;
  }

  // Rows whose sums are kept together, and those of them that may be summed alone: the sums of a
  // chunk are those of its pieces, added one after the other. Sums over fine grids are large, and
  // half as many of them leave room in the caches.
  static std::int64_t chunk(const FitArgs<T>& network) {
    return block(network) == kLargeBlock ? 2 * kLargeBlock : kLargeBlock;
  }
  static std::int64_t piece(const FitArgs<T>&) { return kLargeBlock; }

  // Samples that go through all layers together.
  static std::int64_t block(const FitArgs<T>& network) {
    std::int64_t most = kSmallBlock;
    for (std::int64_t l = 0; l < network.layer_count; ++l)
      most = std::max(most, sorted_block(cell_count(network.layers[l].spline)));
    return most;
  }

  FitLayer(const FitArgs<T>& network, std::int64_t l) : wide_(is_wide(network.layers[l])) {
    const JetArgs<T>& a = network.layers[l];
    if (wide_) {
      new (&layout_.wide) FitWide<T>(a, block(network));
    } else {
      new (&layout_.slim) FitSlim<T>(a, block(network));
    }
  }

  // Numbers that the layer needs while it works, and those that are kept of a chunk; multiples of a
  // vector.
  std::int64_t memory() const {
    return visit([](const auto& layout) { return layout.memory(); });
  }
  std::int64_t kept() const {
    return visit([](const auto& layout) { return layout.kept(); });
  }
  void pack(std::int64_t model, T* memory) {
    wide_ ? layout_.wide.pack(model, memory) : layout_.slim.pack(model, memory);
  }

  // Of a chunk: every block forward and back, the first one being `fresh`.
  void forward(const T* x, std::int64_t count, T* y) const {
    visit([&](const auto& layout) { layout.forward(x, count, y); });
  }
  void backward(const T* g, std::int64_t count, bool fresh, T* kept, T* dx) const {
    visit([&](const auto& layout) { layout.backward(g, count, fresh, kept, dx); });
  }

  // From the sums of what was kept of all chunks to gradients, in parts that need some of them
  // each.
  std::int64_t parts() const {
    return visit([](const auto& layout) { return layout.parts(); });
  }
  Range kept_of(std::int64_t part) const {
    return visit([&](const auto& layout) { return layout.kept_of(part); });
  }
  void finish(std::int64_t model, std::int64_t part, T* kept) const {
    visit([&](const auto& layout) { layout.finish(model, part, kept); });
  }

 private:
  // Coefficients of more cells fit no registers, and only those of one output are worth gathering
  // from memory.
  static bool is_wide(const JetArgs<T>& a) {
    return a.n_out > L || (a.n_out > 1 && cell_count(a.spline) > 2 * L);
  }

  template <class Work>
  auto visit(const Work& work) const {
    return wide_ ? work(layout_.wide) : work(layout_.slim);
  }

  union Layout {
    Layout() {}
    FitSlim<T> slim;
    FitWide<T> wide;
  };

  const bool wide_;
  Layout layout_;
};

}  // namespace KANDLE_ISA
}  // namespace kandle

#endif  // KANDLE_AVX512
