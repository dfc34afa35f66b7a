// XLA's FFI handlers: check the arguments, choose the instruction set, share the work between
// threads.
#include "ffi.h"

#include <cstdint>
#include <string>

#include "active.h"
#include "backward_tasks.h"
#include "check.h"
#include "kernel.h"
#include "tasks.h"

namespace kandle {
namespace {

// ---- the fused layer ---------------------------------------------------------------------------

// What forward and backward have in common; `outputs` is y or g, (models, C, n, n_out).
template <class T>
JetArgs<T> jet_args(Check& check, const LayerOperands& operands, std::int64_t models, In outputs,
                    const char* outputs_name, const Spline& spline, const JetAttributes& at) {
  check.require(has_jet(spline.degree, at.first, at.second), "(first, second)",
                [&] { return at.refused() + " at degree " + std::to_string(spline.degree); });
  // No layout packs more than this per feature and output, with outputs rounded up to whole
  // vectors.
  JetArgs<T> a = layer_args<T>(check, operands, models, outputs, outputs_name, at,
                               {spline.grid + spline.degree, 32, 4 * kMaxDegree});
  a.spline = spline;
  return a;
}

template <class T>
ffi::Error jet_forward(ffi::ThreadPool pool, In x, In r, In c, In b, In bias, Out y,
                       std::int64_t grid, std::int64_t degree, double lo, double hi,
                       std::int64_t first, std::int64_t second, bool residual) {
  Check check;
  const std::int64_t models = check.extent<T>("y", *y, 4, 0);
  const Spline spline = check.spline(grid, degree, lo, hi);
  JetArgs<T> a =
      jet_args<T>(check, {x, r, c, b}, models, *y, "y", spline, {first, second, residual});
  a.bias = check.operand<T>("bias", bias, models, {a.n_out});
  a.y = check.result<T>("y", *y, models, {1 + a.first + a.second, a.n, a.n_out});
  if (!check.ok()) return check.error();
  const std::int64_t threads = thread_count(pool, layer_work(a));
  return run_layer<T>(pool, threads, [&] { return ForwardTasks<T>(a, threads); });
}

template <class T>
ffi::Error run_backward(ffi::ThreadPool& pool, In x, In r, In c, In b, In g,
                        const BackwardResults& results, std::int64_t grid, std::int64_t degree,
                        double lo, double hi, const JetAttributes& at) {
  Check check;
  const std::int64_t models = results.models<T>(check);
  const Spline spline = check.spline(grid, degree, lo, hi);
  JetArgs<T> a = jet_args<T>(check, {x, r, c, b}, models, g, "g", spline, at);
  results.into(check, a, g, spline.grid + spline.degree);
  if (!check.ok()) return check.error();
  const std::int64_t threads = thread_count(pool, layer_work(a));
  return run_layer<T>(pool, threads, [&] { return BackwardTasks<T>(a, threads); });
}

template <class T>
ffi::Error jet_backward_w(ffi::ThreadPool pool, In x, In r, In c, In b, In g, Out dr, Out dc,
                          Out db, Out dbias, std::int64_t grid, std::int64_t degree, double lo,
                          double hi, std::int64_t first, std::int64_t second, bool residual) {
  return run_backward<T>(pool, x, r, c, b, g, {nullptr, &*dr, &*dc, &*db, &*dbias}, grid, degree,
                         lo, hi, {first, second, residual});
}

template <class T>
ffi::Error jet_backward_x(ffi::ThreadPool pool, In x, In r, In c, In b, In g, Out dx,
                          std::int64_t grid, std::int64_t degree, double lo, double hi,
                          std::int64_t first, std::int64_t second, bool residual) {
  return run_backward<T>(pool, x, r, c, b, g, {&*dx, nullptr, nullptr, nullptr, nullptr}, grid,
                         degree, lo, hi, {first, second, residual});
}

template <class T>
ffi::Error jet_backward_xw(ffi::ThreadPool pool, In x, In r, In c, In b, In g, Out dx, Out dr,
                           Out dc, Out db, Out dbias, std::int64_t grid, std::int64_t degree,
                           double lo, double hi, std::int64_t first, std::int64_t second,
                           bool residual) {
  return run_backward<T>(pool, x, r, c, b, g, {&*dx, &*dr, &*dc, &*db, &*dbias}, grid, degree, lo,
                         hi, {first, second, residual});
}

// ---- the general operations --------------------------------------------------------------------

template <class T>
TrilinearArgs<T> trilinear_args(Check& check, In x, std::int64_t models, std::int64_t n_out,
                                std::int64_t grid, std::int64_t degree, double lo, double hi,
                                std::int64_t order) {
  TrilinearArgs<T> p{};
  p.spline = check.spline(grid, degree, lo, hi);
  check.between("order", order, 0, degree);
  p.models = models, p.n_out = n_out;
  p.n = check.extent<T>("x", x, 3, 1);
  p.n_in = check.extent<T>("x", x, 3, 2);
  if (!check.ok()) return p;
  p.order = static_cast<int>(order);
  check.size("x", {models, p.n, p.n_in});
  check.size("g", {models, p.n, n_out});
  check.size("w", {models, p.n_in, grid + degree, n_out});
  p.x = check.operand<T>("x", x, models, {p.n, p.n_in});
  return p;
}

template <class T, class Args, class Kernel>
ffi::Error run(Check& check, ffi::ThreadPool& pool, const Args& p, std::int64_t work,
               std::int64_t items, const Kernel& kernel) {
  if (!check.ok()) return check.error();
  return share(pool, work, p.models, items,
               [&](std::int64_t model, std::int64_t begin, std::int64_t end) {
                 kernel(p, model, begin, end);
               });
}

template <class T>
ffi::Error trilinear_y(ffi::ThreadPool pool, In x, In a, In w, Out y, std::int64_t grid,
                       std::int64_t degree, double lo, double hi, std::int64_t order) {
  Check check;
  const std::int64_t models = check.extent<T>("y", *y, 3, 0),
                     n_out = check.extent<T>("y", *y, 3, 2);
  auto p = trilinear_args<T>(check, x, models, n_out, grid, degree, lo, hi, order);
  p.a = check.operand<T>("a", a, models, {p.n, p.n_in});
  p.w = check.operand<T>("w", w, models, {p.n_in, grid + degree, n_out});
  p.out = check.result<T>("y", *y, models, {p.n, n_out});
  return run<T>(check, pool, p, layer_work(p), p.n, active<T>().trilinear_y);
}

template <class T>
ffi::Error trilinear_a(ffi::ThreadPool pool, In x, In w, In g, Out a, std::int64_t grid,
                       std::int64_t degree, double lo, double hi, std::int64_t order) {
  Check check;
  const std::int64_t models = check.extent<T>("a", *a, 3, 0), n_out = check.extent<T>("g", g, 3, 2);
  auto p = trilinear_args<T>(check, x, models, n_out, grid, degree, lo, hi, order);
  p.w = check.operand<T>("w", w, models, {p.n_in, grid + degree, n_out});
  p.g = check.operand<T>("g", g, models, {p.n, n_out});
  p.out = check.result<T>("a", *a, models, {p.n, p.n_in});
  return run<T>(check, pool, p, layer_work(p), p.n, active<T>().trilinear_a);
}

template <class T>
ffi::Error trilinear_w(ffi::ThreadPool pool, In x, In a, In g, Out w, std::int64_t grid,
                       std::int64_t degree, double lo, double hi, std::int64_t order) {
  Check check;
  const std::int64_t models = check.extent<T>("w", *w, 4, 0), n_out = check.extent<T>("g", g, 3, 2);
  auto p = trilinear_args<T>(check, x, models, n_out, grid, degree, lo, hi, order);
  p.a = check.operand<T>("a", a, models, {p.n, p.n_in});
  p.g = check.operand<T>("g", g, models, {p.n, n_out});
  p.out = check.result<T>("w", *w, models, {p.n_in, grid + degree, n_out});
  return run<T>(check, pool, p, layer_work(p), p.n_in, active<T>().trilinear_w);
}

template <class T>
PairArgs<T> pair_args(Check& check, In x, std::int64_t models, std::int64_t grid,
                      std::int64_t degree, double lo, double hi, std::int64_t order,
                      std::int64_t other) {
  PairArgs<T> p{};
  p.spline = check.spline(grid, degree, lo, hi);
  check.between("order", order, 0, degree);
  check.between("other", other, -1, degree);
  p.models = models;
  p.n = check.extent<T>("x", x, 3, 1);
  p.n_in = check.extent<T>("x", x, 3, 2);
  if (!check.ok()) return p;
  p.order = static_cast<int>(order), p.other = static_cast<int>(other);
  check.size("x", {models, p.n, p.n_in});
  check.size("w", {models, p.n_in, grid + degree});
  p.x = check.operand<T>("x", x, models, {p.n, p.n_in});
  return p;
}

template <class T>
ffi::Error pair_a(ffi::ThreadPool pool, In x, In w, Out a, std::int64_t grid, std::int64_t degree,
                  double lo, double hi, std::int64_t order, std::int64_t other) {
  Check check;
  const std::int64_t models = check.extent<T>("a", *a, 3, 0);
  auto p = pair_args<T>(check, x, models, grid, degree, lo, hi, order, other);
  p.w = check.operand<T>("w", w, models, {p.n_in, grid + degree});
  p.out = check.result<T>("a", *a, models, {p.n, p.n_in});
  return run<T>(check, pool, p, p.models * p.n * p.n_in, p.n, active<T>().pair_a);
}

template <class T>
ffi::Error pair_w(ffi::ThreadPool pool, In x, In a, Out w, std::int64_t grid, std::int64_t degree,
                  double lo, double hi, std::int64_t order, std::int64_t other) {
  Check check;
  const std::int64_t models = check.extent<T>("w", *w, 3, 0);
  auto p = pair_args<T>(check, x, models, grid, degree, lo, hi, order, other);
  p.a = check.operand<T>("a", a, models, {p.n, p.n_in});
  p.out = check.result<T>("w", *w, models, {p.n_in, grid + degree});
  return run<T>(check, pool, p, p.models * p.n * p.n_in, p.n_in, active<T>().pair_w);
}

template <class T>
ffi::Error total(ffi::ThreadPool pool, In x, Out y) {
  Check check;
  const std::int64_t rows = check.extent<T>("x", x, 2, 0), n = check.extent<T>("x", x, 2, 1);
  check.size("x", {rows, n});
  const T* in = check.operand<T>("x", x, rows, {n}).data;
  T* out = check.result<T>("y", *y, rows, {});
  if (!check.ok()) return check.error();
  const auto kernel = active<T>().total;
  return share(pool, rows * n, 1, rows, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    kernel(in, n, out, begin, end);
  });
}

// ---- bindings ----------------------------------------------------------------------------------

template <int Ins, int Outs>
auto bind_spline() {
  return bind<Ins, Outs>()
      .template Attr<std::int64_t>("grid")
      .template Attr<std::int64_t>("degree")
      .template Attr<double>("lo")
      .template Attr<double>("hi");
}

template <int Ins, int Outs>
auto bind_jet() {
  return bind_spline<Ins, Outs>()
      .template Attr<std::int64_t>("first")
      .template Attr<std::int64_t>("second")
      .template Attr<bool>("residual");
}

auto bind_trilinear() { return bind_spline<3, 1>().template Attr<std::int64_t>("order"); }

auto bind_pair() {
  return bind_spline<2, 1>().template Attr<std::int64_t>("order").template Attr<std::int64_t>(
      "other");
}

}  // namespace
}  // namespace kandle

KANDLE_HANDLER(jet_forward, (kandle::bind_jet<5, 1>()));
KANDLE_HANDLER(jet_backward_x, (kandle::bind_jet<5, 1>()));
KANDLE_HANDLER(jet_backward_w, (kandle::bind_jet<5, 4>()));
KANDLE_HANDLER(jet_backward_xw, (kandle::bind_jet<5, 5>()));
KANDLE_HANDLER(trilinear_y, kandle::bind_trilinear());
KANDLE_HANDLER(trilinear_a, kandle::bind_trilinear());
KANDLE_HANDLER(trilinear_w, kandle::bind_trilinear());
KANDLE_HANDLER(pair_a, kandle::bind_pair());
KANDLE_HANDLER(pair_w, kandle::bind_pair());
KANDLE_HANDLER(total, (kandle::bind<1, 1>()));

extern "C" {

// Plain symbols, readable before anything is registered with XLA.
int kandle_ffi_api_major() { return XLA_FFI_API_MAJOR; }
int kandle_ffi_api_minor() { return XLA_FFI_API_MINOR; }
const char* kandle_isa() { return kandle::active_table().isa; }
double kandle_fma_rate() { return kandle::active_table().fma_rate(); }
int kandle_has_jet(int degree, int first, int second) {
  return kandle::has_jet(degree, first, second);
}

}  // extern "C"
