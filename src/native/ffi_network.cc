// XLA's FFI handler of the outputs of a network of uniform B-splines, all layers in one call.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ffi.h"

namespace kandle {
namespace {

// A task takes some rows of one model through all layers: what lies between them stays in the
// cache, and no thread waits for another one between two layers. Rows are independent of each
// other, so that results do not depend on the tasks.
template <class T>
class NetworkTasks {
 public:
  NetworkTasks(const std::vector<JetArgs<T>>& layers, std::int64_t threads)
      : layers_(layers),
        models_(layers.front().models),
        n_(layers.front().n),
        width_(widest(layers)),
        blocks_(block_count(threads)) {}

  std::int64_t count() const { return models_ * blocks_; }

  void run(const Kernels<T>& kernels, std::int64_t task) const {
    const std::int64_t model = task / blocks_, block = task % blocks_;
    const std::int64_t begin = n_ * block / blocks_, rows = n_ * (block + 1) / blocks_ - begin;
    T *from = buffer(2 * rows * width_), *to = from + rows * width_;
    const T* x = layers_.front().x.at(model) + begin * layers_.front().n_in;
    for (std::size_t l = 0; l < layers_.size(); ++l, std::swap(from, to)) {
      JetArgs<T> a = layers_[l];
      a.models = 1, a.n = rows;
      a.x = {x, 0};
      for (Operand<T>* operand : {&a.r, &a.c, &a.b, &a.bias}) *operand = {operand->at(model), 0};
      a.y = l + 1 < layers_.size() ? to : a.y + (model * n_ + begin) * a.n_out;
      kernels.jet_forward(a, 0, {0, rows}, {0, a.n_out});
      x = a.y;
    }
  }

 private:
  // Numbers of a block between two layers, and rows that share one packing of the weights.
  static constexpr std::int64_t kNumbers = std::int64_t{1} << 17, kRows = 2048;

  static std::int64_t widest(const std::vector<JetArgs<T>>& layers) {
    std::int64_t width = 1;
    for (const JetArgs<T>& layer : layers) width = std::max(width, layer.n_out);
    return width;
  }

  std::int64_t block_count(std::int64_t threads) const {
    const std::int64_t most = std::clamp<std::int64_t>(kNumbers / width_, 64, kRows);
    const std::int64_t needed = (n_ + most - 1) / most;
    // As many blocks for one thread as for another.
    const std::int64_t parts = models_ >= 4 * threads ? 1 : threads;
    return std::max<std::int64_t>((needed + parts - 1) / parts * parts, 1);
  }

  // A thread's memory, kept from call to call.
  static T* buffer(std::int64_t size) {
    thread_local std::unique_ptr<T[]> memory;
    thread_local std::int64_t capacity = 0;
    if (capacity < size) {
      capacity = 0;
      memory.reset(new T[size]);
      capacity = size;
    }
    return memory.get();
  }

  const std::vector<JetArgs<T>>& layers_;
  const std::int64_t models_, n_, width_, blocks_;
};

// Operands are x, then r, c, b, bias of every layer.
template <class T>
ffi::Error network(ffi::ThreadPool pool, In x, ffi::RemainingArgs weights, Out y,
                   ffi::Span<const std::int64_t> grid, ffi::Span<const std::int64_t> degree,
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
  number("the number of 'degree'", degree.size(), count);
  number("the number of 'lo'", lo.size(), count);
  number("the number of 'hi'", hi.size(), count);
  number("the number of 'residual'", residual.size(), count);
  number("the number of weights", weights.size(), 4 * count);
  std::int64_t models = check.extent<T>("y", *y, 3, 0);
  std::int64_t n = check.extent<T>("x", x, 3, 1), width = check.extent<T>("x", x, 3, 2), work = 0;
  if (!check.ok()) return check.error();
  std::vector<JetArgs<T>> layers(count);
  layers[0].x = check.operand<T>("x", x, models, {n, width});
  bool shared = layers[0].x.stride > 0;
  for (std::int64_t l = 0; l < count && check.ok(); ++l) {
    JetArgs<T>& layer = layers[l];
    const auto in = [&](int j) { return *weights.get<ffi::AnyBuffer>(4 * l + j); };
    layer.spline = check.spline(grid[l], degree[l], lo[l], hi[l]);
    layer.residual = residual[l] != 0;
    layer.models = models, layer.n = n, layer.n_in = width;
    layer.n_out = check.extent<T>("c", in(1), 3, 1);
    const std::int64_t n_out = layer.n_out, n_basis = grid[l] + degree[l];
    check.size("b", {models, n_out, width, n_basis});
    check.size("the packed b", {width, n_out + 64, 32 * (n_basis + 4 * kMaxDegree)});
    check.size("the outputs of a layer", {models, n, n_out});
    layer.r = check.operand<T>("r", in(0), models, {n_out, width});
    layer.c = check.operand<T>("c", in(1), models, {n_out, width});
    layer.b = check.operand<T>("b", in(2), models, {n_out, width, n_basis});
    layer.bias = check.operand<T>("bias", in(3), models, {n_out});
    for (const Operand<T>* operand : {&layer.r, &layer.c, &layer.b, &layer.bias})
      shared = shared && operand->stride == 0;
    work += layer_work(layer);
    width = n_out;
  }
  if (check.ok()) layers[count - 1].y = check.result<T>("y", *y, models, {n, width});
  if (!check.ok()) return check.error();
  // One network at the points of many models, as `vmap` over points has them: these are its rows.
  if (shared) {
    for (JetArgs<T>& layer : layers) layer.models = 1, layer.n = models * n;
    layers[0].x.stride = 0;
  }
  const std::int64_t threads = thread_count(pool, work);
  return run_layer<T>(pool, threads, [&] { return NetworkTasks<T>(layers, threads); });
}

auto bind_network() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .Ret<ffi::AnyBuffer>()
      .Attr<ffi::Span<const std::int64_t>>("grid")
      .Attr<ffi::Span<const std::int64_t>>("degree")
      .Attr<ffi::Span<const double>>("lo")
      .Attr<ffi::Span<const double>>("hi")
      .Attr<ffi::Span<const std::int64_t>>("residual");
}

}  // namespace
}  // namespace kandle

KANDLE_HANDLER(network, kandle::bind_network());
