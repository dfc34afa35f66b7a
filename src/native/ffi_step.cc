// XLA's FFI handler of a layer's backward pass that advances its weights at once.
#include <algorithm>
#include <cstdint>

#include "backward_tasks.h"
#include "ffi.h"

namespace kandle {
namespace {

// Operands are x and g, (1 or models, C, n, ...), the rates (models, 3), then r, c, b, their first
// and their second moments, each of any shape that leads with the models. Results are the gradient
// of the bias, the nine arrays advanced and, if wanted, the gradient of x.
template <class T>
ffi::Error jet_step(ffi::ThreadPool pool, In x, In g, In step, ffi::RemainingArgs before, Out dbias,
                    ffi::RemainingRets after, std::int64_t grid, std::int64_t degree, double lo,
                    double hi, std::int64_t first, std::int64_t second, bool residual, double b1,
                    double b2, double eps, double eps_root) {
  constexpr std::size_t kArrays = 9;
  static constexpr const char* kNames[kArrays] = {"r",          "c",          "b",
                                                  "the m of r", "the m of c", "the m of b",
                                                  "the v of r", "the v of c", "the v of b"};
  Check check;
  JetArgs<T> a{};
  WeightStep<T> update{{b1, b2, eps, eps_root}, nullptr, {}, {}, {}};
  a.spline = check.spline(grid, degree, lo, hi);
  const JetAttributes at{first, second, residual};
  check.require(has_jet(degree, first, second), "(first, second)", [&] { return at.refused(); });
  a.first = static_cast<int>(first), a.second = static_cast<int>(second);
  a.residual = residual;
  a.models = check.extent<T>("step", step, 2, 0);
  a.n = check.extent<T>("x", x, 4, 2), a.n_in = check.extent<T>("x", x, 4, 3);
  a.n_out = check.extent<T>("g", g, 4, 3);
  check.between("the number of inputs", a.n_in, kLeastStep, kMaxBytes);
  check.between("the number of outputs", a.n_out, kLeastStep, kMaxBytes);
  check.require(before.size() == kArrays, "the number of arrays", [] { return "nine"; });
  check.require(after.size() == kArrays || after.size() == kArrays + 1, "the number of results",
                [] { return "nine or ten, beside the bias"; });
  if (!check.ok()) return check.error();
  const std::int64_t components = 1 + first + second, n_basis = grid + degree;
  const std::int64_t edges = a.n_out * a.n_in;
  check.size("x", {a.models, components, a.n, a.n_in});
  check.size("g", {a.models, components, a.n, a.n_out});
  check.size("b", {a.models, a.n_out + 64, a.n_in, 32 * (n_basis + 4 * kMaxDegree)});
  a.x = check.operand<T>("x", x, a.models, {components, a.n, a.n_in});
  a.g = check.operand<T>("g", g, a.models, {components, a.n, a.n_out});
  update.step = check.elements<T>("step", step, 3 * a.models);
  a.dbias = check.result<T>("dbias", *dbias, a.models, {a.n_out});
  if (after.size() > kArrays) {
    a.want_x = true;
    a.dx = check.result<T>("dx", **after.get<ffi::AnyBuffer>(kArrays), a.models,
                           {components, a.n, a.n_in});
  }
  T* arrays[kArrays] = {};
  for (std::size_t j = 0; j < kArrays && check.ok(); ++j) {
    const std::int64_t size = a.models * edges * (j % 3 == 2 ? n_basis : 1);
    const T* from = check.elements<T>(kNames[j], *before.get<ffi::AnyBuffer>(j), size);
    arrays[j] = check.elements<T>(kNames[j], **after.get<ffi::AnyBuffer>(j), size);
    // XLA makes them one; if not, the step is in place all the same.
    if (check.ok() && from != arrays[j]) std::copy_n(from, size, arrays[j]);
  }
  if (!check.ok()) return check.error();
  a.want_w = true;
  a.r = {arrays[0], edges}, a.c = {arrays[1], edges}, a.b = {arrays[2], edges * n_basis};
  update.r = {arrays[0], arrays[3], arrays[6]};
  update.c = {arrays[1], arrays[4], arrays[7]};
  update.b = {arrays[2], arrays[5], arrays[8]};
  a.update = &update;
  const std::int64_t threads = thread_count(pool, layer_work(a));
  return run_layer<T>(pool, threads, [&] { return BackwardTasks<T>(a, threads); });
}

auto bind_step() {
  return bind_adam_options(ffi::Ffi::Bind()
                               .Ctx<ffi::ThreadPool>()
                               .Arg<ffi::AnyBuffer>()
                               .Arg<ffi::AnyBuffer>()
                               .Arg<ffi::AnyBuffer>()
                               .RemainingArgs()
                               .Ret<ffi::AnyBuffer>()
                               .RemainingRets()
                               .Attr<std::int64_t>("grid")
                               .Attr<std::int64_t>("degree")
                               .Attr<double>("lo")
                               .Attr<double>("hi")
                               .Attr<std::int64_t>("first")
                               .Attr<std::int64_t>("second")
                               .Attr<bool>("residual"));
}

}  // namespace
}  // namespace kandle

KANDLE_HANDLER(jet_step, kandle::bind_step());

// Inputs and outputs from which on a layer has such a step.
extern "C" int kandle_least_step() { return kandle::kLeastStep; }
