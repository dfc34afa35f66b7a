// What the FFI layer and the instruction-set specific kernels agree on.
//
// A layer maps x (C, N, n_in) to y (C, N, n_out) for each of P models. Component 0 is the value, the
// next `first` components are directional derivatives and the last `second` are second derivatives
// along the first `second` of those directions:
//
//   y    = sum_i phi(x_i) + bias        phi = r R + c sum_m b_m B_m
//   y_d  = sum_i phi'(x_i) x_d,i
//   y_dd = sum_i phi''(x_i) x_d,i^2 + phi'(x_i) x_dd,i
//
// An operand whose model stride is 0 is shared by all models.
#pragma once

#include <cstdint>

namespace kandle {

inline constexpr int kMaxDegree = 5;

struct Spline {
  std::int64_t grid;
  int degree;
  double lo, hi;
};

template <class T>
struct Operand {
  const T* data = nullptr;
  std::int64_t stride = 0;  // elements from one model to the next, 0 when shared
  const T* at(std::int64_t model) const { return data + model * stride; }
};

template <class T>
struct JetArgs {
  Spline spline;
  bool residual;
  int first, second;
  std::int64_t models, n, n_in, n_out;
  Operand<T> x, r, c, b, bias, g;
  T* y;                            // forward
  T *dx, *dr, *dc, *db, *dbias;    // backward: dx or the four others may be null, when not wanted
};

// F = sum a[n,i] W[i,m,o] g[n,o] B_m^(order)(x[n,i]), differentiated in g, a or W.
enum class Mode : int { kY = 0, kA = 1, kW = 2 };

template <class T>
struct TrilinearArgs {
  Spline spline;
  int order;
  std::int64_t models, n, n_in, n_out;
  Operand<T> x, a, w, g;
  T* out;
};

// S = sum a[n,i] w[i,m] B_m^(order)(x[n,i]) B_m^(other)(x[n,i]), differentiated in a or w;
// other = -1 leaves the second factor out.
template <class T>
struct PairArgs {
  Spline spline;
  int order, other;
  std::int64_t models, n, n_in;
  Operand<T> x, a, w;
  T* out;
};

// A range is of samples or of input features: sums never cross two ranges, so results do not depend on
// how many threads share the work.
template <class T>
struct Kernels {
  bool (*has_jet)(int degree, int first, int second);
  void (*jet_forward)(const JetArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*jet_backward)(const JetArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*trilinear_y)(const TrilinearArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*trilinear_a)(const TrilinearArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*trilinear_w)(const TrilinearArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*pair_a)(const PairArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*pair_w)(const PairArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*total)(const T* x, std::int64_t n, T* out, std::int64_t begin, std::int64_t end);
};

struct KernelTable {
  const char* isa;
  double (*fma_rate)();  // floating-point operations a second of one core, float32, measured now
  Kernels<float> f32;
  Kernels<double> f64;
};

#define KANDLE_DECLARE_TABLE(isa) \
  namespace isa {                 \
  const KernelTable& table();     \
  }

KANDLE_DECLARE_TABLE(portable)
KANDLE_DECLARE_TABLE(x86_64_v2)
KANDLE_DECLARE_TABLE(x86_64_v3)
KANDLE_DECLARE_TABLE(x86_64_v4)
KANDLE_DECLARE_TABLE(native)

}  // namespace kandle
