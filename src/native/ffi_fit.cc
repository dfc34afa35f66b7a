// XLA's FFI handler of the squared error of a network, and how it is cut into tasks.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ffi.h"
#include "fit.h"

namespace kandle {
namespace {

// A task is one model, or one chunk of its samples. The chunks depend on the number of samples
// alone, and their sums are added in order: results depend neither on threads nor on other models.
template <class T>
class FitTasks {
 public:
  FitTasks(const FitArgs<T>& args, std::int64_t threads)
      : args_(args),
        rows_(kRows * std::max<std::int64_t>(1, (args.n + kMost * kRows - 1) / (kMost * kRows))),
        chunks_(std::max<std::int64_t>(1, (args.n + rows_ - 1) / rows_)),
        parts_(threads == 1 || args.models >= 4 * threads ? 1 : chunks_),
        size_(active_fit<T>().size(args)) {
    if (parts_ == 1) return;
    sums_ = active_fit<T>().buffer(args.models * chunks_ * size_);
    done_.reset(new std::atomic<std::int64_t>[args.models]);
    for (std::int64_t model = 0; model < args.models; ++model) done_[model] = 0;
  }

  std::int64_t count() const { return args_.models * parts_; }

  void run(std::int64_t task) const {
    const FitKernels<T>& kernels = active_fit<T>();
    const std::int64_t model = task / parts_, chunk = task % parts_;
    if (parts_ == 1) return kernels.whole(args_, model, rows_);
    T* sums = sums_ + model * chunks_ * size_;
    const Range samples{chunk * rows_, std::min((chunk + 1) * rows_, args_.n)};
    kernels.sum(args_, model, samples, sums + chunk * size_);
    if (done_[model].fetch_add(1, std::memory_order_acq_rel) + 1 == chunks_)
      kernels.finish(args_, model, chunks_, sums);
  }

 private:
  static constexpr std::int64_t kRows = 1024, kMost = 64;  // rows of a chunk, and most chunks

  const FitArgs<T>& args_;
  const std::int64_t rows_, chunks_, parts_, size_;
  T* sums_ = nullptr;  // (models, chunks, size)
  std::unique_ptr<std::atomic<std::int64_t>[]> done_;
};

// Operands are x, y, weight, then r, c, b, bias of every layer; results are the loss and, unless
// only that is wanted, the gradients of r, c, b, bias of every layer.
template <class T>
ffi::Error fit(ffi::ThreadPool pool, In x, In y, In weight, ffi::RemainingArgs weights, Out loss,
               ffi::RemainingRets gradients, ffi::Span<const std::int64_t> grid,
               ffi::Span<const double> lo, ffi::Span<const double> hi,
               ffi::Span<const std::int64_t> residual) {
  Check check;
  const std::int64_t count = static_cast<std::int64_t>(grid.size());
  const auto number = [&](const char* name, std::size_t got, std::int64_t wanted) {
    check.require(static_cast<std::int64_t>(got) == wanted, name, [&] {
      return std::to_string(wanted) + " for " + std::to_string(count) + " layers, got " +
             std::to_string(got);
    });
  };
  check.between("the number of layers", count, 1, 1 << 20);
  number("the number of 'lo'", lo.size(), count);
  number("the number of 'hi'", hi.size(), count);
  number("the number of 'residual'", residual.size(), count);
  number("the number of weights", weights.size(), 4 * count);
  FitArgs<T> a{};
  a.want_w = gradients.size() > 0;
  if (a.want_w) number("the number of gradients", gradients.size(), 4 * count);
  a.layer_count = count;
  a.models = check.extent<T>("loss", *loss, 1, 0);
  a.n = check.extent<T>("x", x, 3, 1);
  std::int64_t width = check.extent<T>("x", x, 3, 2), work = 0;
  if (!check.ok()) return check.error();
  a.x = check.operand<T>("x", x, a.models, {a.n, width});
  std::vector<JetArgs<T>> layers(count);
  for (std::int64_t l = 0; l < count && check.ok(); ++l) {
    JetArgs<T>& layer = layers[l];
    const auto in = [&](int j) { return *weights.get<ffi::AnyBuffer>(4 * l + j); };
    const auto out = [&](int j) { return **gradients.get<ffi::AnyBuffer>(4 * l + j); };
    layer.spline = check.spline(grid[l], 3, lo[l], hi[l]);
    layer.residual = residual[l] != 0, layer.want_w = a.want_w;
    layer.models = a.models, layer.n = a.n, layer.n_in = width;
    layer.n_out = check.extent<T>("c", in(1), 3, 1);
    const std::int64_t n_out = layer.n_out, n_basis = grid[l] + 3;
    check.size("b", {a.models, n_out, width, n_basis});
    layer.r = check.operand<T>("r", in(0), a.models, {n_out, width});
    layer.c = check.operand<T>("c", in(1), a.models, {n_out, width});
    layer.b = check.operand<T>("b", in(2), a.models, {n_out, width, n_basis});
    layer.bias = check.operand<T>("bias", in(3), a.models, {n_out});
    if (a.want_w && check.ok()) {
      layer.dr = check.result<T>("dr", out(0), a.models, {n_out, width});
      layer.dc = check.result<T>("dc", out(1), a.models, {n_out, width});
      layer.db = check.result<T>("db", out(2), a.models, {n_out, width, n_basis});
      layer.dbias = check.result<T>("dbias", out(3), a.models, {n_out});
    }
    if (!check.ok()) break;
    check.require(active_fit<T>().takes(layer), "a layer", [&] {
      return "one that the kernels accept, got " + std::to_string(width) + " inputs, " +
             std::to_string(n_out) + " outputs and a grid of " + std::to_string(grid[l]);
    });
    work += layer_work(layer);
    width = n_out;
  }
  check.size("y", {a.models, a.n, width});
  a.y = check.operand<T>("y", y, a.models, {a.n, width});
  a.weight = check.operand<T>("weight", weight, a.models, {a.n});
  a.loss = check.result<T>("loss", *loss, a.models, {});
  if (!check.ok()) return check.error();
  a.layers = layers.data();
  const std::int64_t threads = thread_count(pool, work);
  return guarded([&] {
    const FitTasks<T> tasks(a, threads);
    parallel(pool, threads, tasks.count(), [&](std::int64_t task) { tasks.run(task); });
  });
}

auto bind_fit() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .Ret<ffi::AnyBuffer>()
      .RemainingRets()
      .Attr<ffi::Span<const std::int64_t>>("grid")
      .Attr<ffi::Span<const double>>("lo")
      .Attr<ffi::Span<const double>>("hi")
      .Attr<ffi::Span<const std::int64_t>>("residual");
}

template <class T>
int fits_layer(std::int64_t grid, std::int64_t degree, std::int64_t n_in, std::int64_t n_out) {
  JetArgs<T> layer{};
  layer.spline = {grid, static_cast<int>(degree), 0.0, 1.0};
  layer.n_in = n_in, layer.n_out = n_out;
  return is_spline(grid, degree) && n_in > 0 && n_out > 0 && active_fit<T>().takes(layer);
}

}  // namespace
}  // namespace kandle

KANDLE_HANDLER(fit, kandle::bind_fit());

extern "C" {

int kandle_fits_layer_f32(std::int64_t grid, std::int64_t degree, std::int64_t n_in,
                          std::int64_t n_out) {
  return kandle::fits_layer<float>(grid, degree, n_in, n_out);
}
int kandle_fits_layer_f64(std::int64_t grid, std::int64_t degree, std::int64_t n_in,
                          std::int64_t n_out) {
  return kandle::fits_layer<double>(grid, degree, n_in, n_out);
}

}  // extern "C"
