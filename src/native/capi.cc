// The kernels as plain C functions, for callers without XLA: pointers, sizes, a number of threads.
//
// An operand whose bit in `batched` is set leads with a model axis; the others are shared by all
// models. Every function returns 0, or kBadSpline, or kNoMemory.
#include <cstdint>

#include "calls.h"

namespace kandle {
namespace {

template <class T>
int layer(const T* x, const T* r, const T* c, const T* b, const T* bias, T* y, std::int64_t models,
          std::int64_t n, std::int64_t n_in, std::int64_t n_out, int batched, std::int64_t grid,
          int degree, double lo, double hi, int residual, std::int64_t threads) {
  if (!is_spline(grid, degree)) return kBadSpline;
  JetArgs<T> a =
      layer_args(x, r, c, b, models, n, n_in, n_out, batched, grid, degree, lo, hi, residual);
  a.bias = operand(bias, n_out, batched, 4);
  a.y = y;
  threads = worth(a, threads);
  const ForwardTasks<T> forward(a, threads);
  return run_tasks(forward.tasks.count, threads,
                   [&](std::int64_t task) { forward.run(active<T>(), task); });
}

// The gradients of sum(g y); dx, or the four others together, may be null.
template <class T>
int layer_backward(const T* x, const T* r, const T* c, const T* b, const T* g, T* dx, T* dr, T* dc,
                   T* db, T* dbias, std::int64_t models, std::int64_t n, std::int64_t n_in,
                   std::int64_t n_out, int batched, std::int64_t grid, int degree, double lo,
                   double hi, int residual, std::int64_t threads) {
  if (!is_spline(grid, degree)) return kBadSpline;
  JetArgs<T> a =
      layer_args(x, r, c, b, models, n, n_in, n_out, batched, grid, degree, lo, hi, residual);
  a.g = operand(g, n * n_out, batched, 4);
  a.want_x = dx != nullptr, a.want_w = dbias != nullptr;
  a.dx = dx, a.dr = dr, a.dc = dc, a.db = db, a.dbias = dbias;
  return run_backward(a, threads);
}

// The gradients of Q = sum h u phi' + g u v phi'' of one model with cubic splines and at most
// kandle_c_few_outputs outputs: dh and dg, then dx and du, then dr, dc and db together may be null.
template <class T>
int second(const T* x, const T* r, const T* c, const T* b, const T* u, const T* v, const T* h,
           const T* g, T* dh, T* dg, T* dx, T* du, T* dr, T* dc, T* db, std::int64_t n,
           std::int64_t n_in, std::int64_t n_out, std::int64_t grid, double lo, double hi,
           int residual, std::int64_t threads) {
  if (!is_spline(grid, 3) || n_out > active<T>().few_outputs) return kBadSpline;
  SecondArgs<T> p{};
  p.layer = layer_args(x, r, c, b, std::int64_t{1}, n, n_in, n_out, 0, grid, 3, lo, hi, residual);
  p.layer.want_w = db != nullptr;
  p.layer.dr = dr, p.layer.dc = dc, p.layer.db = db;
  p.u = {u, 0}, p.v = {v, 0}, p.h = {h, 0}, p.g = {g, 0};
  p.dh = dh, p.dg = dg, p.dx = dx, p.du = du;
  return run_second(p, threads);
}

// The operand that is null is the one that `out` is the derivative in.
template <class T>
int trilinear(const T* x, const T* a, const T* w, const T* g, T* out, std::int64_t models,
              std::int64_t n, std::int64_t n_in, std::int64_t n_out, int batched, std::int64_t grid,
              int degree, double lo, double hi, int order, int residual, std::int64_t threads) {
  if (!is_spline(grid, degree) || order > kMaxSiluOrder) return kBadSpline;
  TrilinearArgs<T> p{};
  p.spline = {grid, degree, lo, hi};
  p.order = order, p.residual = residual != 0;
  p.models = models, p.n = n, p.n_in = n_in, p.n_out = n_out;
  p.x = operand(x, n * n_in, batched, 0);
  p.a = operand(a, n * n_in, batched, 1);
  p.w = operand(w, n_in * (grid + degree + p.residual) * n_out, batched, 2);
  p.g = operand(g, n * n_out, batched, 3);
  p.out = out;
  if (!g) return share(p, n, threads, active<T>().trilinear_y);
  if (!a) return share(p, n, threads, active<T>().trilinear_a);
  return share(p, n_in, threads, active<T>().trilinear_w);
}

}  // namespace
}  // namespace kandle

#define KANDLE_C_FUNCTIONS(T, suffix)                                                              \
  int kandle_c_layer_##suffix(const T* x, const T* r, const T* c, const T* b, const T* bias, T* y, \
                              std::int64_t models, std::int64_t n, std::int64_t n_in,              \
                              std::int64_t n_out, int batched, std::int64_t grid, int degree,      \
                              double lo, double hi, int residual, std::int64_t threads) {          \
    return kandle::layer<T>(x, r, c, b, bias, y, models, n, n_in, n_out, batched, grid, degree,    \
                            lo, hi, residual, threads);                                            \
  }                                                                                                \
  int kandle_c_layer_backward_##suffix(const T* x, const T* r, const T* c, const T* b, const T* g, \
                                       T* dx, T* dr, T* dc, T* db, T* dbias, std::int64_t models,  \
                                       std::int64_t n, std::int64_t n_in, std::int64_t n_out,      \
                                       int batched, std::int64_t grid, int degree, double lo,      \
                                       double hi, int residual, std::int64_t threads) {            \
    return kandle::layer_backward<T>(x, r, c, b, g, dx, dr, dc, db, dbias, models, n, n_in, n_out, \
                                     batched, grid, degree, lo, hi, residual, threads);            \
  }                                                                                                \
  int kandle_c_trilinear_##suffix(                                                                 \
      const T* x, const T* a, const T* w, const T* g, T* out, std::int64_t models, std::int64_t n, \
      std::int64_t n_in, std::int64_t n_out, int batched, std::int64_t grid, int degree,           \
      double lo, double hi, int order, int residual, std::int64_t threads) {                       \
    return kandle::trilinear<T>(x, a, w, g, out, models, n, n_in, n_out, batched, grid, degree,    \
                                lo, hi, order, residual, threads);                                 \
  }                                                                                                \
  int kandle_c_second_##suffix(const T* x, const T* r, const T* c, const T* b, const T* u,         \
                               const T* v, const T* h, const T* g, T* dh, T* dg, T* dx, T* du,     \
                               T* dr, T* dc, T* db, std::int64_t n, std::int64_t n_in,             \
                               std::int64_t n_out, std::int64_t grid, double lo, double hi,        \
                               int residual, std::int64_t threads) {                               \
    return kandle::second<T>(x, r, c, b, u, v, h, g, dh, dg, dx, du, dr, dc, db, n, n_in, n_out,   \
                             grid, lo, hi, residual, threads);                                     \
  }                                                                                                \
  int kandle_c_few_outputs_##suffix() { return kandle::active<T>().few_outputs; }

extern "C" {

// The caller's OpenMP runtime, or null: then helpers are started for each call that is worth it.
void kandle_c_use_team(void* gomp_parallel) {
  kandle::team = reinterpret_cast<kandle::Team>(gomp_parallel);
}

KANDLE_C_FUNCTIONS(float, f32)
KANDLE_C_FUNCTIONS(double, f64)

}  // extern "C"
