// The squared error of a network and its gradient, block by block of samples: a block goes through
// all layers and back while its tables are in the cache, so that every table is made once and
// nothing of the size of the data set is stored.
#include "fit.h"

#include <algorithm>

#include "fit_global.h"
#include "fit_layer.h"
#include "fit_network.h"
#include "scratch.h"

namespace kandle {
namespace KANDLE_ISA {
namespace {

template <class T>
bool takes(const JetArgs<T>& layer, const Functions* functions) {
  if (functions) return FitGlobal<T>::takes(layer, *functions);
#if KANDLE_AVX512
  return FitLayer<T>::takes(layer);
#else
  return false;
#endif
}

// Calls work with the layers' class, as a null pointer to it.
template <class T, class Work>
auto with_layer(const FitArgs<T>& a, const Work& work) {
#if KANDLE_AVX512
  if (!a.functions) return work(static_cast<FitLayer<T>*>(nullptr));
#endif
  return work(static_cast<FitGlobal<T>*>(nullptr));
}

template <class T>
FitRows rows(const FitArgs<T>& a) {
  return with_layer(a, [&](auto* type) {
    using Layer = std::remove_pointer_t<decltype(type)>;
    return FitRows{Layer::chunk(a), Layer::piece(a)};
  });
}

template <class T>
std::int64_t size(const FitArgs<T>& a) {
  return with_layer(
      a, [&](auto* layer) { return kept_size<T, std::remove_pointer_t<decltype(layer)>>(a); });
}

template <class T>
void sum(const FitArgs<T>& a, std::int64_t model, Range samples, bool packed, T* sums) {
  with_layer(a, [&](auto* layer) {
    Network<T, std::remove_pointer_t<decltype(layer)>>(a, model, packed).sum(samples, sums);
  });
}

template <class T>
std::int64_t parts(const FitArgs<T>& a) {
  if (!a.want_w) return 1;
  return with_layer(a, [&](auto* type) {
    std::int64_t count = 0;
    for (std::int64_t l = 0; l < a.layer_count; ++l)
      count += std::remove_pointer_t<decltype(type)>(a, l).parts();
    return count;
  });
}

template <class T>
void add(const T* more, std::int64_t count, T* sums) {
  for (std::int64_t j = 0; j < count; ++j) sums[j] += more[j];
}

// Adds up `count` numbers of all sums, `size` apart, some at a time: they stay in the first-level
// cache. First those of the pieces of each chunk, then those of the chunks.
template <class T>
void add_sums(std::int64_t count, const FitSums& all, std::int64_t size, T* sums) {
  constexpr std::int64_t kSome = 2048;
  for (std::int64_t start = 0; start < count; start += kSome) {
    const std::int64_t some = std::min(kSome, count - start);
    for (std::int64_t first = 0; first < all.count; first += all.pieces) {
      T* chunk = sums + first * size + start;
      for (std::int64_t k = 1; k < all.pieces && first + k < all.count; ++k)
        add(chunk + k * size, some, chunk);
      if (first > 0) add(chunk, some, sums + start);
    }
  }
}

template <class T>
void finish(const FitArgs<T>& a, std::int64_t model, std::int64_t part, const FitSums& all,
            T* sums) {
  const std::int64_t size_of_sums = size(a);
  if (part == 0) {
    add_sums(kLanes<T>, all, size_of_sums, sums);
    T loss = T(0);
    for (int l = 0; l < kLanes<T>; ++l) loss += sums[l];
    a.loss[model] = loss;
  }
  if (!a.want_w) return;
  T* of = sums + kLanes<T>;
  with_layer(a, [&](auto* type) {
    for (std::int64_t l = 0; l < a.layer_count; ++l) {
      const std::remove_pointer_t<decltype(type)> layer(a, l);
      if (part < layer.parts()) {
        const Range own = layer.kept_of(part);
        add_sums(own.end - own.begin, all, size_of_sums, of + own.begin);
        return layer.finish(model, part, of);
      }
      part -= layer.parts();
      of += layer.kept();
    }
  });
}

template <class T>
void whole(const FitArgs<T>& a, std::int64_t model, std::int64_t rows) {
  with_layer(a, [&](auto* layer) {
    const Network<T, std::remove_pointer_t<decltype(layer)>> network(a, model, false);
    const std::int64_t count = size(a);
    T *sums = scratch<T, 1>(2 * count), *more = sums + count;
    network.sum({0, std::min(rows, a.n)}, sums);
    for (std::int64_t start = rows; start < a.n; start += rows) {
      network.sum({start, std::min(start + rows, a.n)}, more);
      add(more, count, sums);
    }
    const std::int64_t all = parts(a);
    for (std::int64_t part = 0; part < all; ++part) finish(a, model, part, {1, 1}, sums);
  });
}

template <class T>
T* buffer(std::int64_t size) {
  return scratch<T, 6>(size);
}

template <class T>
constexpr FitKernels<T> kernels() {
  return {takes<T>, rows<T>, size<T>, sum<T>, parts<T>, finish<T>, whole<T>, buffer<T>};
}

}  // namespace

const FitTable& fit_table() {
  static const FitTable instance{kernels<float>(), kernels<double>()};
  return instance;
}

}  // namespace KANDLE_ISA
}  // namespace kandle
