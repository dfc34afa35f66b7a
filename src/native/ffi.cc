// XLA's FFI handlers: check shapes, choose the instruction set, share the work between threads.
#include <cstdint>
#include <string>

#include "kernel.h"
#include "parallel.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace kandle {
namespace {

const KernelTable& choose_table() {
#if defined(KANDLE_NATIVE_ONLY)
  return native::table();
#elif defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return x86_64_v4::table();
  if (__builtin_cpu_supports("x86-64-v3")) return x86_64_v3::table();
  if (__builtin_cpu_supports("x86-64-v2")) return x86_64_v2::table();
  return portable::table();
#else
  return portable::table();
#endif
}

const KernelTable& active_table() {
  static const KernelTable& table = choose_table();
  return table;
}

template <class T>
const Kernels<T>& active() {
  if constexpr (sizeof(T) == 4) {
    return active_table().f32;
  } else {
    return active_table().f64;
  }
}

template <class T>
constexpr ffi::DataType kType = sizeof(T) == 4 ? ffi::DataType::F32 : ffi::DataType::F64;

template <class T>
using Rank1 = ffi::Buffer<kType<T>, 1>;
template <class T>
using Rank2 = ffi::Buffer<kType<T>, 2>;
template <class T>
using Rank3 = ffi::Buffer<kType<T>, 3>;
template <class T>
using Rank4 = ffi::Buffer<kType<T>, 4>;

template <class T, class B>
Operand<T> operand(const B& buffer) {
  std::int64_t size = 1;
  for (std::size_t axis = 1; axis < buffer.dimensions().size(); ++axis) size *= buffer.dimensions()[axis];
  return {buffer.typed_data(), buffer.dimensions()[0] == 1 ? 0 : size};
}

template <class B>
bool has_shape(const B& buffer, std::int64_t models, std::initializer_list<std::int64_t> rest) {
  const auto dims = buffer.dimensions();
  if (dims[0] != 1 && dims[0] != models) return false;
  std::size_t axis = 1;
  for (std::int64_t extent : rest)
    if (dims[axis++] != extent) return false;
  return true;
}

ffi::Error bad_shape(const char* name) {
  return ffi::Error::InvalidArgument(std::string("kandle: the shape of ") + name + " does not fit the others");
}

// Beyond this many intervals a cell's number would not be exact in float32.
constexpr std::int64_t kMaxGrid = std::int64_t{1} << 22;

bool is_spline(std::int64_t grid, std::int64_t degree) {
  return 1 <= grid && grid <= kMaxGrid && 1 <= degree && degree <= kMaxDegree;
}

ffi::Error bad_spline() {
  return ffi::Error::InvalidArgument("kandle: the native kernels need 1 <= grid <= " + std::to_string(kMaxGrid) +
                                     " and 1 <= degree <= " + std::to_string(kMaxDegree));
}

// Few models are split further, into one range a thread; the ranges change no result.
template <class Work>
void share(ffi::ThreadPool& pool, std::int64_t models, std::int64_t items, const Work& work) {
  const std::int64_t threads = std::max<std::int64_t>(1, pool.num_threads());
  const std::int64_t wanted = models >= 4 * threads ? 1 : threads;
  const std::int64_t parts = std::max<std::int64_t>(1, std::min(wanted, items));
  parallel(pool, models * parts, [&](std::int64_t task) {
    const std::int64_t model = task / parts, part = task % parts;
    work(model, items * part / parts, items * (part + 1) / parts);
  });
}

template <class T>
ffi::Error jet_forward(ffi::ThreadPool pool, Rank4<T> x, Rank3<T> r, Rank3<T> c, Rank4<T> b, Rank2<T> bias,
                       ffi::Result<Rank4<T>> y, std::int64_t grid, std::int64_t degree, double lo, double hi,
                       std::int64_t first, std::int64_t second, bool residual) {
  const auto xs = x.dimensions(), ys = y->dimensions();
  JetArgs<T> a{};
  a.spline = {grid, static_cast<int>(degree), lo, hi};
  a.residual = residual, a.first = static_cast<int>(first), a.second = static_cast<int>(second);
  a.models = ys[0], a.n = xs[2], a.n_in = xs[3], a.n_out = ys[3];
  const std::int64_t components = 1 + first + second;
  if (!is_spline(grid, degree)) return bad_spline();
  if (!has_shape(x, a.models, {components, a.n, a.n_in})) return bad_shape("x");
  if (!has_shape(r, a.models, {a.n_out, a.n_in})) return bad_shape("r");
  if (!has_shape(c, a.models, {a.n_out, a.n_in})) return bad_shape("c");
  if (!has_shape(b, a.models, {a.n_out, a.n_in, grid + degree})) return bad_shape("b");
  if (!has_shape(bias, a.models, {a.n_out})) return bad_shape("bias");
  a.x = operand<T>(x), a.r = operand<T>(r), a.c = operand<T>(c), a.b = operand<T>(b);
  a.bias = operand<T>(bias), a.y = y->typed_data();
  const auto kernel = active<T>().jet_forward;
  share(pool, a.models, a.n, [&](std::int64_t model, std::int64_t begin, std::int64_t end) {
    kernel(a, model, begin, end);
  });
  return ffi::Error::Success();
}

template <class T>
ffi::Error run_backward(ffi::ThreadPool& pool, Rank4<T>& x, Rank3<T>& r, Rank3<T>& c, Rank4<T>& b, Rank4<T>& g,
                        JetArgs<T>& a, std::int64_t grid, std::int64_t degree, double lo, double hi,
                        std::int64_t first, std::int64_t second, bool residual) {
  const auto xs = x.dimensions(), gs = g.dimensions();
  a.spline = {grid, static_cast<int>(degree), lo, hi};
  a.residual = residual, a.first = static_cast<int>(first), a.second = static_cast<int>(second);
  a.n = xs[2], a.n_in = xs[3], a.n_out = gs[3];
  const std::int64_t components = 1 + first + second;
  if (!is_spline(grid, degree)) return bad_spline();
  if (!has_shape(x, a.models, {components, a.n, a.n_in})) return bad_shape("x");
  if (!has_shape(r, a.models, {a.n_out, a.n_in})) return bad_shape("r");
  if (!has_shape(c, a.models, {a.n_out, a.n_in})) return bad_shape("c");
  if (!has_shape(b, a.models, {a.n_out, a.n_in, grid + degree})) return bad_shape("b");
  if (!has_shape(g, a.models, {components, a.n, a.n_out})) return bad_shape("g");
  a.x = operand<T>(x), a.r = operand<T>(r), a.c = operand<T>(c), a.b = operand<T>(b), a.g = operand<T>(g);
  const auto kernel = active<T>().jet_backward;
  share(pool, a.models, a.n_in, [&](std::int64_t model, std::int64_t begin, std::int64_t end) {
    kernel(a, model, begin, end);
  });
  return ffi::Error::Success();
}

template <class T>
ffi::Error jet_backward_w(ffi::ThreadPool pool, Rank4<T> x, Rank3<T> r, Rank3<T> c, Rank4<T> b, Rank4<T> g,
                          ffi::Result<Rank3<T>> dr, ffi::Result<Rank3<T>> dc, ffi::Result<Rank4<T>> db, ffi::Result<Rank2<T>> dbias, std::int64_t grid,
                          std::int64_t degree, double lo, double hi, std::int64_t first, std::int64_t second,
                          bool residual) {
  JetArgs<T> a{};
  a.models = dr->dimensions()[0];
  a.dr = dr->typed_data(), a.dc = dc->typed_data(), a.db = db->typed_data(), a.dbias = dbias->typed_data();
  return run_backward(pool, x, r, c, b, g, a, grid, degree, lo, hi, first, second, residual);
}

template <class T>
ffi::Error jet_backward_x(ffi::ThreadPool pool, Rank4<T> x, Rank3<T> r, Rank3<T> c, Rank4<T> b, Rank4<T> g,
                          ffi::Result<Rank4<T>> dx, std::int64_t grid, std::int64_t degree, double lo, double hi,
                          std::int64_t first, std::int64_t second, bool residual) {
  JetArgs<T> a{};
  a.models = dx->dimensions()[0], a.dx = dx->typed_data();
  return run_backward(pool, x, r, c, b, g, a, grid, degree, lo, hi, first, second, residual);
}

template <class T>
ffi::Error jet_backward_xw(ffi::ThreadPool pool, Rank4<T> x, Rank3<T> r, Rank3<T> c, Rank4<T> b, Rank4<T> g,
                           ffi::Result<Rank4<T>> dx, ffi::Result<Rank3<T>> dr, ffi::Result<Rank3<T>> dc, ffi::Result<Rank4<T>> db, ffi::Result<Rank2<T>> dbias,
                           std::int64_t grid, std::int64_t degree, double lo, double hi, std::int64_t first,
                           std::int64_t second, bool residual) {
  JetArgs<T> a{};
  a.models = dx->dimensions()[0], a.dx = dx->typed_data();
  a.dr = dr->typed_data(), a.dc = dc->typed_data(), a.db = db->typed_data(), a.dbias = dbias->typed_data();
  return run_backward(pool, x, r, c, b, g, a, grid, degree, lo, hi, first, second, residual);
}

template <class T>
TrilinearArgs<T> trilinear_args(const Rank3<T>& x, std::int64_t models, std::int64_t n_out, std::int64_t grid,
                                std::int64_t degree, double lo, double hi, std::int64_t order, T* out) {
  TrilinearArgs<T> p{};
  p.spline = {grid, static_cast<int>(degree), lo, hi};
  p.order = static_cast<int>(order), p.models = models;
  p.n = x.dimensions()[1], p.n_in = x.dimensions()[2], p.n_out = n_out;
  p.x = operand<T>(x), p.out = out;
  return p;
}

template <class T>
ffi::Error trilinear_y(ffi::ThreadPool pool, Rank3<T> x, Rank3<T> a, Rank4<T> w, ffi::Result<Rank3<T>> y, std::int64_t grid,
                       std::int64_t degree, double lo, double hi, std::int64_t order) {
  if (!is_spline(grid, degree)) return bad_spline();
  auto p = trilinear_args<T>(x, y->dimensions()[0], y->dimensions()[2], grid, degree, lo, hi, order, y->typed_data());
  if (!has_shape(a, p.models, {p.n, p.n_in})) return bad_shape("a");
  if (!has_shape(w, p.models, {p.n_in, grid + degree, p.n_out})) return bad_shape("w");
  p.a = operand<T>(a), p.w = operand<T>(w);
  const auto kernel = active<T>().trilinear_y;
  share(pool, p.models, p.n, [&](std::int64_t m, std::int64_t begin, std::int64_t end) { kernel(p, m, begin, end); });
  return ffi::Error::Success();
}

template <class T>
ffi::Error trilinear_a(ffi::ThreadPool pool, Rank3<T> x, Rank4<T> w, Rank3<T> g, ffi::Result<Rank3<T>> a, std::int64_t grid,
                       std::int64_t degree, double lo, double hi, std::int64_t order) {
  if (!is_spline(grid, degree)) return bad_spline();
  auto p = trilinear_args<T>(x, a->dimensions()[0], g.dimensions()[2], grid, degree, lo, hi, order, a->typed_data());
  if (!has_shape(w, p.models, {p.n_in, grid + degree, p.n_out})) return bad_shape("w");
  if (!has_shape(g, p.models, {p.n, p.n_out})) return bad_shape("g");
  p.w = operand<T>(w), p.g = operand<T>(g);
  const auto kernel = active<T>().trilinear_a;
  share(pool, p.models, p.n, [&](std::int64_t m, std::int64_t begin, std::int64_t end) { kernel(p, m, begin, end); });
  return ffi::Error::Success();
}

template <class T>
ffi::Error trilinear_w(ffi::ThreadPool pool, Rank3<T> x, Rank3<T> a, Rank3<T> g, ffi::Result<Rank4<T>> w, std::int64_t grid,
                       std::int64_t degree, double lo, double hi, std::int64_t order) {
  if (!is_spline(grid, degree)) return bad_spline();
  auto p = trilinear_args<T>(x, w->dimensions()[0], g.dimensions()[2], grid, degree, lo, hi, order, w->typed_data());
  if (!has_shape(a, p.models, {p.n, p.n_in})) return bad_shape("a");
  if (!has_shape(g, p.models, {p.n, p.n_out})) return bad_shape("g");
  p.a = operand<T>(a), p.g = operand<T>(g);
  const auto kernel = active<T>().trilinear_w;
  share(pool, p.models, p.n_in, [&](std::int64_t m, std::int64_t begin, std::int64_t end) { kernel(p, m, begin, end); });
  return ffi::Error::Success();
}

template <class T>
PairArgs<T> pair_args(const Rank3<T>& x, std::int64_t models, std::int64_t grid, std::int64_t degree, double lo,
                      double hi, std::int64_t order, std::int64_t other, T* out) {
  PairArgs<T> p{};
  p.spline = {grid, static_cast<int>(degree), lo, hi};
  p.order = static_cast<int>(order), p.other = static_cast<int>(other), p.models = models;
  p.n = x.dimensions()[1], p.n_in = x.dimensions()[2];
  p.x = operand<T>(x), p.out = out;
  return p;
}

template <class T>
ffi::Error pair_a(ffi::ThreadPool pool, Rank3<T> x, Rank3<T> w, ffi::Result<Rank3<T>> a, std::int64_t grid, std::int64_t degree,
                  double lo, double hi, std::int64_t order, std::int64_t other) {
  if (!is_spline(grid, degree)) return bad_spline();
  auto p = pair_args<T>(x, a->dimensions()[0], grid, degree, lo, hi, order, other, a->typed_data());
  if (!has_shape(w, p.models, {p.n_in, grid + degree})) return bad_shape("w");
  p.w = operand<T>(w);
  const auto kernel = active<T>().pair_a;
  share(pool, p.models, p.n, [&](std::int64_t m, std::int64_t begin, std::int64_t end) { kernel(p, m, begin, end); });
  return ffi::Error::Success();
}

template <class T>
ffi::Error pair_w(ffi::ThreadPool pool, Rank3<T> x, Rank3<T> a, ffi::Result<Rank3<T>> w, std::int64_t grid, std::int64_t degree,
                  double lo, double hi, std::int64_t order, std::int64_t other) {
  if (!is_spline(grid, degree)) return bad_spline();
  auto p = pair_args<T>(x, w->dimensions()[0], grid, degree, lo, hi, order, other, w->typed_data());
  if (!has_shape(a, p.models, {p.n, p.n_in})) return bad_shape("a");
  p.a = operand<T>(a);
  const auto kernel = active<T>().pair_w;
  share(pool, p.models, p.n_in, [&](std::int64_t m, std::int64_t begin, std::int64_t end) { kernel(p, m, begin, end); });
  return ffi::Error::Success();
}

template <class T>
ffi::Error total(ffi::ThreadPool pool, Rank2<T> x, ffi::Result<Rank1<T>> y) {
  const std::int64_t rows = x.dimensions()[0], n = x.dimensions()[1];
  const auto kernel = active<T>().total;
  share(pool, 1, rows, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    kernel(x.typed_data(), n, y->typed_data(), begin, end);
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace kandle

#define KANDLE_SPLINE_ATTRS \
  .Attr<std::int64_t>("grid").Attr<std::int64_t>("degree").Attr<double>("lo").Attr<double>("hi")
#define KANDLE_JET_ATTRS \
  KANDLE_SPLINE_ATTRS.Attr<std::int64_t>("first").Attr<std::int64_t>("second").Attr<bool>("residual")
#define KANDLE_POOL ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()

#define KANDLE_HANDLERS(T, suffix)                                                                             \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                               \
      kandle_jet_forward_##suffix, kandle::jet_forward<T>,                                                     \
      KANDLE_POOL.Arg<kandle::Rank4<T>>().Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>()                      \
          .Arg<kandle::Rank4<T>>().Arg<kandle::Rank2<T>>().Ret<kandle::Rank4<T>>() KANDLE_JET_ATTRS);          \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                               \
      kandle_jet_backward_w_##suffix, kandle::jet_backward_w<T>,                                               \
      KANDLE_POOL.Arg<kandle::Rank4<T>>().Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>()                      \
          .Arg<kandle::Rank4<T>>().Arg<kandle::Rank4<T>>().Ret<kandle::Rank3<T>>().Ret<kandle::Rank3<T>>()     \
          .Ret<kandle::Rank4<T>>().Ret<kandle::Rank2<T>>() KANDLE_JET_ATTRS);                                  \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                               \
      kandle_jet_backward_x_##suffix, kandle::jet_backward_x<T>,                                               \
      KANDLE_POOL.Arg<kandle::Rank4<T>>().Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>()                      \
          .Arg<kandle::Rank4<T>>().Arg<kandle::Rank4<T>>().Ret<kandle::Rank4<T>>() KANDLE_JET_ATTRS);          \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                               \
      kandle_jet_backward_xw_##suffix, kandle::jet_backward_xw<T>,                                             \
      KANDLE_POOL.Arg<kandle::Rank4<T>>().Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>()                      \
          .Arg<kandle::Rank4<T>>().Arg<kandle::Rank4<T>>().Ret<kandle::Rank4<T>>().Ret<kandle::Rank3<T>>()     \
          .Ret<kandle::Rank3<T>>().Ret<kandle::Rank4<T>>().Ret<kandle::Rank2<T>>() KANDLE_JET_ATTRS);          \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                               \
      kandle_trilinear_y_##suffix, kandle::trilinear_y<T>,                                                     \
      KANDLE_POOL.Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>().Arg<kandle::Rank4<T>>()                      \
          .Ret<kandle::Rank3<T>>() KANDLE_SPLINE_ATTRS.Attr<std::int64_t>("order"));                           \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                               \
      kandle_trilinear_a_##suffix, kandle::trilinear_a<T>,                                                     \
      KANDLE_POOL.Arg<kandle::Rank3<T>>().Arg<kandle::Rank4<T>>().Arg<kandle::Rank3<T>>()                      \
          .Ret<kandle::Rank3<T>>() KANDLE_SPLINE_ATTRS.Attr<std::int64_t>("order"));                           \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                               \
      kandle_trilinear_w_##suffix, kandle::trilinear_w<T>,                                                     \
      KANDLE_POOL.Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>()                      \
          .Ret<kandle::Rank4<T>>() KANDLE_SPLINE_ATTRS.Attr<std::int64_t>("order"));                           \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(kandle_pair_a_##suffix, kandle::pair_a<T>,                                     \
                                KANDLE_POOL.Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>()                    \
                                    .Ret<kandle::Rank3<T>>() KANDLE_SPLINE_ATTRS.Attr<std::int64_t>("order")   \
                                    .Attr<std::int64_t>("other"));                                             \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(kandle_pair_w_##suffix, kandle::pair_w<T>,                                     \
                                KANDLE_POOL.Arg<kandle::Rank3<T>>().Arg<kandle::Rank3<T>>()                    \
                                    .Ret<kandle::Rank3<T>>() KANDLE_SPLINE_ATTRS.Attr<std::int64_t>("order")   \
                                    .Attr<std::int64_t>("other"));                                             \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(kandle_total_##suffix, kandle::total<T>,                                       \
                                KANDLE_POOL.Arg<kandle::Rank2<T>>().Ret<kandle::Rank1<T>>())

KANDLE_HANDLERS(float, f32);
KANDLE_HANDLERS(double, f64);

extern "C" {

// Plain symbols, readable before anything is registered with XLA.
int kandle_ffi_api_major() { return XLA_FFI_API_MAJOR; }
int kandle_ffi_api_minor() { return XLA_FFI_API_MINOR; }
const char* kandle_isa() { return kandle::active_table().isa; }
double kandle_fma_rate() { return kandle::active_table().fma_rate(); }
int kandle_has_jet(int degree, int first, int second) {
  return kandle::active_table().f32.has_jet(degree, first, second);
}

}  // extern "C"
