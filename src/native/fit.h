// The squared error of a whole network on a data set, with its gradient in the weights.
#pragma once

#include "active.h"
#include "kernel.h"

namespace kandle {

// loss = sum_n weight[n] |F(x[n]) - y[n]|^2 of a network F. Of its layers, which follow each other,
// the splines, sizes, weights and gradients count; the gradients are null where not wanted. Layers
// of bases without local support have `functions`, which is null for splines.
template <class T>
struct FitArgs {
  const JetArgs<T>* layers;
  const Functions* functions;
  std::int64_t layer_count, models, n;
  Operand<T> x, y, weight;
  bool want_w;
  T* loss;
};

// Of a chunk of samples, and of a piece of it that may be summed alone.
struct FitRows {
  std::int64_t chunk, piece;
};

// How many sums there are, and how many of them make a chunk.
struct FitSums {
  std::int64_t count, pieces;
};

// A chunk of samples gives sums: of the loss, and of what the gradients are made of. They are those
// of its pieces, added up in order. The sums of all chunks of a model are added up in order and
// turned into loss and gradients. Sums begin at a cache line, and `size` is a multiple of one.
template <class T>
struct FitKernels {
  // Whether there are kernels for layers of this shape.
  bool (*takes)(const JetArgs<T>& layer, const Functions* functions);
  FitRows (*rows)(const FitArgs<T>&);  // where there are few chunks
  std::int64_t (*size)(const FitArgs<T>&);
  // `packed` says that the thread's last sum was of the same call and model: its weights are still
  // packed.
  void (*sum)(const FitArgs<T>&, std::int64_t model, Range samples, bool packed, T* sums);
  // The parts of a model's gradients that can be finished independently, and the work on one.
  std::int64_t (*parts)(const FitArgs<T>&);
  void (*finish)(const FitArgs<T>&, std::int64_t model, std::int64_t part, const FitSums& all,
                 T* sums);
  // All of it, in chunks of so many rows.
  void (*whole)(const FitArgs<T>&, std::int64_t model, std::int64_t rows);
  // Memory for the sums of a call, aligned, and kept by the calling thread from call to call.
  T* (*buffer)(std::int64_t size);
};

struct FitTable {
  FitKernels<float> f32;
  FitKernels<double> f64;
};

#define KANDLE_DECLARE_FIT(isa) \
  namespace isa {               \
  const FitTable& fit_table();  \
  }

KANDLE_DECLARE_FIT(portable)
KANDLE_DECLARE_FIT(x86_64_v2)
KANDLE_DECLARE_FIT(x86_64_v3)
KANDLE_DECLARE_FIT(x86_64_v4)
KANDLE_DECLARE_FIT(native)

// That of the instruction set which active.h chooses.
inline const FitTable& active_fit_table() {
#if defined(KANDLE_NATIVE_ONLY)
  return native::fit_table();
#elif defined(__x86_64__)
  const KernelTable* const chosen = &active_table();
  if (chosen == &x86_64_v4::table()) return x86_64_v4::fit_table();
  if (chosen == &x86_64_v3::table()) return x86_64_v3::fit_table();
  if (chosen == &x86_64_v2::table()) return x86_64_v2::fit_table();
  return portable::fit_table();
#else
  return portable::fit_table();
#endif
}

template <class T>
const FitKernels<T>& active_fit() {
  if constexpr (sizeof(T) == 4) {
    return active_fit_table().f32;
  } else {
    return active_fit_table().f64;
  }
}

}  // namespace kandle
