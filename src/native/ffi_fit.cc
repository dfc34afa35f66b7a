// XLA's FFI handler of the squared error of a network, and how it is cut into tasks.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ffi.h"
#include "fit.h"

namespace kandle {
namespace {

using Integers = ffi::Span<const std::int64_t>;
using Numbers = ffi::Span<const double>;

void check_number(Check& check, const char* name, std::size_t got, std::int64_t wanted,
                  std::int64_t layers) {
  check.require(static_cast<std::int64_t>(got) == wanted, name, [&] {
    return std::to_string(wanted) + " for " + std::to_string(layers) + " layers, got " +
           std::to_string(got);
  });
}

// A task is one model, one chunk of its samples or one piece of a chunk. All of them depend on the
// number of samples alone, and sums are added in order: results depend neither on threads nor on
// other models.
template <class T>
class FitTasks {
 public:
  FitTasks(const FitArgs<T>& args, std::int64_t threads)
      : args_(args),
        rows_(rows(args)),
        shared_(threads > 1 && args.models < 4 * threads && rows_.piece < args.n),
        sums_{shared_ ? count(args.n, task_rows(threads)) : 1, rows_.chunk / task_rows(threads)},
        size_(active_fit<T>().size(args)),
        finish_parts_(active_fit<T>().parts(args)) {
    if (!shared_) return;
    memory_ = active_fit<T>().buffer(args.models * sums_.count * size_);
    done_.reset(new std::atomic<std::int64_t>[args.models]);
    for (std::int64_t model = 0; model < args.models; ++model) done_[model] = 0;
  }

  std::int64_t count() const { return args_.models * sums_.count; }

  // `before` is the task that the thread did before, or -1.
  void run(std::int64_t task, std::int64_t before) const {
    const FitKernels<T>& kernels = active_fit<T>();
    if (!shared_) return kernels.whole(args_, task, rows_.chunk);
    const std::int64_t model = task / sums_.count, own = task % sums_.count;
    const std::int64_t rows = rows_.chunk / sums_.pieces;
    const Range samples{own * rows, std::min((own + 1) * rows, args_.n)};
    const bool packed = before >= 0 && before / sums_.count == model;
    kernels.sum(args_, model, samples, packed, memory(model) + own * size_);
    if (finish_count() > 0) return;
    if (done_[model].fetch_add(1, std::memory_order_acq_rel) + 1 != sums_.count) return;
    for (std::int64_t part = 0; part < finish_parts_; ++part)
      kernels.finish(args_, model, part, sums_, memory(model));
  }

  // Tasks for after all others: where there is little to add up, whoever is last does it at once.
  std::int64_t finish_count() const {
    constexpr std::int64_t kMuch = 1 << 16;  // numbers
    return shared_ && sums_.count * size_ >= kMuch ? args_.models * finish_parts_ : 0;
  }
  void finish(std::int64_t task) const {
    const std::int64_t model = task / finish_parts_, part = task % finish_parts_;
    active_fit<T>().finish(args_, model, part, sums_, memory(model));
  }

 private:
  static std::int64_t count(std::int64_t n, std::int64_t rows) { return (n + rows - 1) / rows; }

  static FitRows rows(const FitArgs<T>& args) {
    constexpr std::int64_t kMost = 64;  // chunks
    FitRows rows = active_fit<T>().rows(args);
    rows.chunk *= std::max<std::int64_t>(1, count(args.n, kMost * rows.chunk));
    return rows;
  }

  // Of a chunk, unless its pieces keep more threads busy.
  std::int64_t task_rows(std::int64_t threads) const {
    const std::int64_t chunks = args_.models * count(args_.n, rows_.chunk);
    return chunks % threads == 0 || chunks >= 4 * threads ? rows_.chunk : rows_.piece;
  }

  T* memory(std::int64_t model) const { return memory_ + model * sums_.count * size_; }

  const FitArgs<T>& args_;
  const FitRows rows_;
  const bool shared_;  // whether several threads work on a model
  const FitSums sums_;
  const std::int64_t size_, finish_parts_;
  T* memory_ = nullptr;  // (models, sums, size)
  std::unique_ptr<std::atomic<std::int64_t>[]> done_;
};

struct FitBuffers {
  In x, y, weight;
  ffi::RemainingArgs weights;
  Out loss;
  ffi::RemainingRets gradients;
};

// Operands are x, y, weight, then r, c, b, bias of every layer; results are the loss and, unless
// only that is wanted, the gradients of r, c, b, bias of every layer. `described` checks the basis
// of a layer, tells it to the kernels and returns the number of its functions.
template <class T, class Describe>
ffi::Error run_fit(Check& check, ffi::ThreadPool& pool, FitBuffers in, std::int64_t count,
                   ffi::Span<const std::int64_t> residual, std::vector<Functions>* functions,
                   const Describe& described) {
  check.between("the number of layers", count, 1, 1 << 20);
  const auto number = [&](const char* name, std::size_t got, std::int64_t wanted) {
    check_number(check, name, got, wanted, count);
  };
  number("the number of 'residual'", residual.size(), count);
  number("the number of weights", in.weights.size(), 4 * count);
  FitArgs<T> a{};
  a.want_w = in.gradients.size() > 0;
  if (a.want_w) number("the number of gradients", in.gradients.size(), 4 * count);
  a.layer_count = count;
  a.models = check.extent<T>("loss", *in.loss, 1, 0);
  a.n = check.extent<T>("x", in.x, 3, 1);
  std::int64_t width = check.extent<T>("x", in.x, 3, 2), work = 0;
  if (!check.ok()) return check.error();
  a.x = check.operand<T>("x", in.x, a.models, {a.n, width});
  std::vector<JetArgs<T>> layers(count);
  for (std::int64_t l = 0; l < count && check.ok(); ++l) {
    JetArgs<T>& layer = layers[l];
    const auto operand = [&](int j) { return *in.weights.get<ffi::AnyBuffer>(4 * l + j); };
    const auto result = [&](int j) { return **in.gradients.get<ffi::AnyBuffer>(4 * l + j); };
    const std::int64_t n_basis = described(l, layer);
    layer.residual = residual[l] != 0, layer.want_w = a.want_w;
    layer.models = a.models, layer.n = a.n, layer.n_in = width;
    layer.n_out = check.extent<T>("c", operand(1), 3, 1);
    const std::int64_t n_out = layer.n_out;
    check.size("b", {a.models, n_out, width, n_basis});
    layer.r = check.operand<T>("r", operand(0), a.models, {n_out, width});
    layer.c = check.operand<T>("c", operand(1), a.models, {n_out, width});
    layer.b = check.operand<T>("b", operand(2), a.models, {n_out, width, n_basis});
    layer.bias = check.operand<T>("bias", operand(3), a.models, {n_out});
    if (a.want_w && check.ok()) {
      layer.dr = check.result<T>("dr", result(0), a.models, {n_out, width});
      layer.dc = check.result<T>("dc", result(1), a.models, {n_out, width});
      layer.db = check.result<T>("db", result(2), a.models, {n_out, width, n_basis});
      layer.dbias = check.result<T>("dbias", result(3), a.models, {n_out});
    }
    if (!check.ok()) break;
    const Functions* own = functions ? functions->data() + l : nullptr;
    check.require(active_fit<T>().takes(layer, own), "a layer", [&] {
      return "one that the kernels accept, got " + std::to_string(width) + " inputs, " +
             std::to_string(n_out) + " outputs and " + std::to_string(n_basis) + " functions";
    });
    work += layer_work(layer);
    width = n_out;
  }
  check.size("y", {a.models, a.n, width});
  a.y = check.operand<T>("y", in.y, a.models, {a.n, width});
  a.weight = check.operand<T>("weight", in.weight, a.models, {a.n});
  a.loss = check.result<T>("loss", *in.loss, a.models, {});
  if (!check.ok()) return check.error();
  a.layers = layers.data();
  a.functions = functions ? functions->data() : nullptr;
  const std::int64_t threads = thread_count(pool, work);
  return guarded([&] {
    const FitTasks<T> tasks(a, threads);
    parallel_after(pool, threads, tasks.count(),
                   [&](std::int64_t task, std::int64_t before) { tasks.run(task, before); });
    parallel(pool, threads, tasks.finish_count(), [&](std::int64_t task) { tasks.finish(task); });
  });
}

// Of a network of cubics.
template <class T>
ffi::Error fit(ffi::ThreadPool pool, In x, In y, In weight, ffi::RemainingArgs weights, Out loss,
               ffi::RemainingRets gradients, Integers grid, Numbers lo, Numbers hi,
               Integers residual) {
  Check check;
  const auto count = static_cast<std::int64_t>(grid.size());
  check_number(check, "the number of 'lo'", lo.size(), count, count);
  check_number(check, "the number of 'hi'", hi.size(), count, count);
  return run_fit<T>(check, pool, {x, y, weight, weights, loss, gradients}, count, residual, nullptr,
                    [&](std::int64_t l, JetArgs<T>& layer) {
                      layer.spline = check.spline(grid[l], 3, lo[l], hi[l]);
                      return layer.spline.grid + 3;
                    });
}

// Of a network of bases without local support.
template <class T>
ffi::Error fit_global(ffi::ThreadPool pool, In x, In y, In weight, ffi::RemainingArgs weights,
                      Out loss, ffi::RemainingRets gradients, Integers family, Integers count,
                      Integers constant, Integers tanh, Numbers lo, Numbers hi, Numbers scale,
                      Integers residual) {
  Check check;
  const auto layers = static_cast<std::int64_t>(family.size());
  check_number(check, "the number of 'count'", count.size(), layers, layers);
  check_number(check, "the number of 'constant'", constant.size(), layers, layers);
  check_number(check, "the number of 'tanh'", tanh.size(), layers, layers);
  check_number(check, "the number of 'lo'", lo.size(), layers, layers);
  check_number(check, "the number of 'hi'", hi.size(), layers, layers);
  check_number(check, "the number of 'scale'", scale.size(), layers, layers);
  std::vector<Functions> functions(layers);
  return run_fit<T>(check, pool, {x, y, weight, weights, loss, gradients}, layers, residual,
                    &functions, [&](std::int64_t l, JetArgs<T>&) {
                      functions[l] = check.functions(family[l], count[l], constant[l] != 0,
                                                     tanh[l] != 0, lo[l], hi[l], scale[l]);
                      return functions[l].size();
                    });
}

auto bind_buffers() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .Ret<ffi::AnyBuffer>()
      .RemainingRets();
}

auto bind_fit() {
  return bind_buffers()
      .Attr<Integers>("grid")
      .Attr<Numbers>("lo")
      .Attr<Numbers>("hi")
      .Attr<Integers>("residual");
}

auto bind_fit_global() {
  return bind_buffers()
      .Attr<Integers>("family")
      .Attr<Integers>("count")
      .Attr<Integers>("constant")
      .Attr<Integers>("tanh")
      .Attr<Numbers>("lo")
      .Attr<Numbers>("hi")
      .Attr<Numbers>("scale")
      .Attr<Integers>("residual");
}

template <class T>
int fits_layer(std::int64_t grid, std::int64_t degree, std::int64_t n_in, std::int64_t n_out) {
  JetArgs<T> layer{};
  layer.spline = {grid, static_cast<int>(degree), 0.0, 1.0};
  layer.n_in = n_in, layer.n_out = n_out;
  return is_spline(grid, degree) && n_in > 0 && n_out > 0 && active_fit<T>().takes(layer, nullptr);
}

template <class T>
int fits_global(std::int64_t n_basis, std::int64_t n_in, std::int64_t n_out) {
  JetArgs<T> layer{};
  layer.n_in = n_in, layer.n_out = n_out;
  const Functions functions{Family::kGaussian, n_basis, false, false, 0.0, 1.0, 1.0};
  return n_basis > 0 && active_fit<T>().takes(layer, &functions);
}

}  // namespace
}  // namespace kandle

KANDLE_HANDLER(fit, kandle::bind_fit());
KANDLE_HANDLER(fit_global, kandle::bind_fit_global());

extern "C" {

int kandle_fits_layer_f32(std::int64_t grid, std::int64_t degree, std::int64_t n_in,
                          std::int64_t n_out) {
  return kandle::fits_layer<float>(grid, degree, n_in, n_out);
}
int kandle_fits_layer_f64(std::int64_t grid, std::int64_t degree, std::int64_t n_in,
                          std::int64_t n_out) {
  return kandle::fits_layer<double>(grid, degree, n_in, n_out);
}
int kandle_fits_global_f32(std::int64_t n_basis, std::int64_t n_in, std::int64_t n_out) {
  return kandle::fits_global<float>(n_basis, n_in, n_out);
}
int kandle_fits_global_f64(std::int64_t n_basis, std::int64_t n_in, std::int64_t n_out) {
  return kandle::fits_global<double>(n_basis, n_in, n_out);
}

}  // extern "C"
