// What the files of XLA's FFI handlers share: operands, results, tasks, bindings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "active.h"
#include "check.h"
#include "kernel.h"
#include "parallel.h"
#include "tasks.h"
#include "xla/ffi/api/ffi.h"

namespace kandle {

namespace ffi = xla::ffi;

using In = ffi::AnyBuffer;
using Out = ffi::Result<ffi::AnyBuffer>;

// Runs something that may run out of memory.
template <class Run>
ffi::Error guarded(const Run& run) {
  try {
    run();
  } catch (const std::bad_alloc&) {
    return {ffi::ErrorCode::kResourceExhausted, "kandle: no memory for a layer's packed weights"};
  }
  return ffi::Error::Success();
}

// Runs work(0) .. work(tasks - 1) on up to `threads` threads.
template <class Work>
ffi::Error run_tasks(ffi::ThreadPool& pool, std::int64_t threads, std::int64_t tasks,
                     const Work& work) {
  return guarded([&] { parallel(pool, threads, tasks, work); });
}

// Runs the tasks of a layer, ForwardTasks or BackwardTasks, which `make` builds.
template <class T, class Make>
ffi::Error run_layer(ffi::ThreadPool& pool, std::int64_t threads, const Make& make) {
  return guarded([&] {
    const auto tasks = make();
    parallel(pool, threads, tasks.count(),
             [&](std::int64_t task) { tasks.run(active<T>(), task); });
  });
}

// Threads that a call of this many (sample, edge) pairs is worth.
inline std::int64_t thread_count(ffi::ThreadPool& pool, std::int64_t pairs) {
  return pairs < kWorthSharing ? 1 : std::max<std::int64_t>(1, pool.num_threads());
}

// Runs work(model, begin, end) over all models and items.
template <class Work>
ffi::Error share(ffi::ThreadPool& pool, std::int64_t pairs, std::int64_t models, std::int64_t items,
                 const Work& work) {
  const std::int64_t threads = thread_count(pool, pairs);
  const Tasks tasks(models, items, threads);
  return run_tasks(pool, threads, tasks.count, [&](std::int64_t task) {
    const Range range = tasks.range(task);
    work(tasks.model(task), range.begin, range.end);
  });
}

// ---- a layer's arguments -----------------------------------------------------------------------

struct JetAttributes {
  std::int64_t first, second;
  bool residual;

  std::string refused() const {
    return "a pair with a fused kernel, got (" + std::to_string(first) + ", " +
           std::to_string(second) + ")";
  }
};

struct LayerOperands {
  In x, r, c, b;
};

// The packed weights of an edge: `times` (n_basis + `more`) numbers at most.
struct Packing {
  std::int64_t n_basis, times, more;
};

// What forward and backward have in common; `outputs` is y or g, (models, C, n, n_out).
template <class T>
JetArgs<T> layer_args(Check& check, const LayerOperands& in, std::int64_t models, In outputs,
                      const char* outputs_name, const JetAttributes& at, const Packing& packing) {
  JetArgs<T> a{};
  a.residual = at.residual;
  a.models = models;
  a.n = check.extent<T>("x", in.x, 4, 2);
  a.n_in = check.extent<T>("x", in.x, 4, 3);
  a.n_out = check.extent<T>(outputs_name, outputs, 4, 3);
  if (!check.ok()) return a;
  a.first = static_cast<int>(at.first), a.second = static_cast<int>(at.second);
  const std::int64_t components = 1 + a.first + a.second, n_basis = packing.n_basis;
  check.size("x", {models, components, a.n, a.n_in});
  check.size(outputs_name, {models, components, a.n, a.n_out});
  check.size("b", {models, a.n_out, a.n_in, n_basis});
  check.size("the packed b", {a.n_in, a.n_out + 64, packing.times * (n_basis + packing.more)});
  a.x = check.operand<T>("x", in.x, models, {components, a.n, a.n_in});
  a.r = check.operand<T>("r", in.r, models, {a.n_out, a.n_in});
  a.c = check.operand<T>("c", in.c, models, {a.n_out, a.n_in});
  a.b = check.operand<T>("b", in.b, models, {a.n_out, a.n_in, n_basis});
  return a;
}

// The results that a backward pass was asked for; null where it was not.
struct BackwardResults {
  const ffi::AnyBuffer *dx, *dr, *dc, *db, *dbias;

  template <class T>
  std::int64_t models(Check& check) const {
    return dx ? check.extent<T>("dx", *dx, 4, 0) : check.extent<T>("dr", *dr, 3, 0);
  }

  template <class T>
  void into(Check& check, JetArgs<T>& a, In g, std::int64_t n_basis) const {
    const std::int64_t components = 1 + a.first + a.second;
    a.g = check.operand<T>("g", g, a.models, {components, a.n, a.n_out});
    if (dx) {
      a.want_x = true;
      a.dx = check.result<T>("dx", *dx, a.models, {components, a.n, a.n_in});
    }
    if (dr) {
      a.want_w = true;
      a.dr = check.result<T>("dr", *dr, a.models, {a.n_out, a.n_in});
      a.dc = check.result<T>("dc", *dc, a.models, {a.n_out, a.n_in});
      a.db = check.result<T>("db", *db, a.models, {a.n_out, a.n_in, n_basis});
      a.dbias = check.result<T>("dbias", *dbias, a.models, {a.n_out});
    }
  }
};

// ---- bindings ----------------------------------------------------------------------------------

// A handler of `Ins` arrays and `Outs` results; types, ranks and shapes are checked above.
template <int Ins, int Outs>
auto bind() {
  if constexpr (Outs > 0) {
    return bind<Ins, Outs - 1>().template Ret<ffi::AnyBuffer>();
  } else if constexpr (Ins > 0) {
    return bind<Ins - 1, 0>().template Arg<ffi::AnyBuffer>();
  } else {
    return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>();
  }
}

}  // namespace kandle

#define KANDLE_HANDLER(name, binding)                                                 \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(kandle_##name##_f32, kandle::name<float>, (binding)); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(kandle_##name##_f64, kandle::name<double>, (binding))
