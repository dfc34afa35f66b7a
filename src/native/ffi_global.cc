// The FFI handlers of layers whose basis has no local support.
#include <cstdint>
#include <string>

#include "active.h"
#include "ffi.h"

namespace kandle {
namespace {

struct FunctionAttributes {
  std::int64_t family, count;
  bool constant, tanh;
  double lo, hi, scale;
};

template <class T>
GlobalArgs<T> global_args(Check& check, const LayerOperands& operands, std::int64_t models,
                          In outputs, const char* outputs_name, const FunctionAttributes& f,
                          const JetAttributes& at) {
  GlobalArgs<T> a{};
  a.functions = check.functions(f.family, f.count, f.constant, f.tanh, f.lo, f.hi, f.scale);
  check.require(has_jet(3, at.first, at.second), "(first, second)", [&] { return at.refused(); });
  // Sums of weight gradients take one vector per weight.
  a.layer = layer_args<T>(check, operands, models, outputs, outputs_name, at,
                          {a.functions.size(), 64, 1});
  return a;
}

template <class T>
ffi::Error global_forward(ffi::ThreadPool pool, In x, In r, In c, In b, In bias, Out y,
                          std::int64_t family, std::int64_t count, bool constant, bool tanh,
                          double lo, double hi, double scale, std::int64_t first,
                          std::int64_t second, bool residual) {
  Check check;
  const std::int64_t models = check.extent<T>("y", *y, 4, 0);
  GlobalArgs<T> p =
      global_args<T>(check, {x, r, c, b}, models, *y, "y",
                     {family, count, constant, tanh, lo, hi, scale}, {first, second, residual});
  JetArgs<T>& a = p.layer;
  a.bias = check.operand<T>("bias", bias, models, {a.n_out});
  a.y = check.result<T>("y", *y, models, {1 + a.first + a.second, a.n, a.n_out});
  if (!check.ok()) return check.error();
  const auto kernel = active<T>().global_forward;
  return share(pool, layer_work(a), a.models, a.n,
               [&](std::int64_t model, std::int64_t begin, std::int64_t end) {
                 kernel(p, model, begin, end);
               });
}

template <class T>
ffi::Error run_backward(ffi::ThreadPool& pool, const LayerOperands& operands, In g,
                        const BackwardResults& results, const FunctionAttributes& f,
                        const JetAttributes& at) {
  Check check;
  const std::int64_t models = results.models<T>(check);
  GlobalArgs<T> p = global_args<T>(check, operands, models, g, "g", f, at);
  JetArgs<T>& a = p.layer;
  results.into(check, a, g, p.functions.size());
  if (!check.ok()) return check.error();
  const auto kernel = active<T>().global_backward;
  return share(pool, layer_work(a), a.models, a.n_in,
               [&](std::int64_t model, std::int64_t begin, std::int64_t end) {
                 kernel(p, model, begin, end);
               });
}

template <class T>
ffi::Error global_backward_w(ffi::ThreadPool pool, In x, In r, In c, In b, In g, Out dr, Out dc,
                             Out db, Out dbias, std::int64_t family, std::int64_t count,
                             bool constant, bool tanh, double lo, double hi, double scale,
                             std::int64_t first, std::int64_t second, bool residual) {
  return run_backward<T>(pool, {x, r, c, b}, g, {nullptr, &*dr, &*dc, &*db, &*dbias},
                         {family, count, constant, tanh, lo, hi, scale}, {first, second, residual});
}

template <class T>
ffi::Error global_backward_x(ffi::ThreadPool pool, In x, In r, In c, In b, In g, Out dx,
                             std::int64_t family, std::int64_t count, bool constant, bool tanh,
                             double lo, double hi, double scale, std::int64_t first,
                             std::int64_t second, bool residual) {
  return run_backward<T>(pool, {x, r, c, b}, g, {&*dx, nullptr, nullptr, nullptr, nullptr},
                         {family, count, constant, tanh, lo, hi, scale}, {first, second, residual});
}

template <class T>
ffi::Error global_backward_xw(ffi::ThreadPool pool, In x, In r, In c, In b, In g, Out dx, Out dr,
                              Out dc, Out db, Out dbias, std::int64_t family, std::int64_t count,
                              bool constant, bool tanh, double lo, double hi, double scale,
                              std::int64_t first, std::int64_t second, bool residual) {
  return run_backward<T>(pool, {x, r, c, b}, g, {&*dx, &*dr, &*dc, &*db, &*dbias},
                         {family, count, constant, tanh, lo, hi, scale}, {first, second, residual});
}

template <int Ins, int Outs>
auto bind_global() {
  return bind<Ins, Outs>()
      .template Attr<std::int64_t>("family")
      .template Attr<std::int64_t>("count")
      .template Attr<bool>("constant")
      .template Attr<bool>("tanh")
      .template Attr<double>("lo")
      .template Attr<double>("hi")
      .template Attr<double>("scale")
      .template Attr<std::int64_t>("first")
      .template Attr<std::int64_t>("second")
      .template Attr<bool>("residual");
}

}  // namespace
}  // namespace kandle

KANDLE_HANDLER(global_forward, (kandle::bind_global<5, 1>()));
KANDLE_HANDLER(global_backward_x, (kandle::bind_global<5, 1>()));
KANDLE_HANDLER(global_backward_w, (kandle::bind_global<5, 4>()));
KANDLE_HANDLER(global_backward_xw, (kandle::bind_global<5, 5>()));
