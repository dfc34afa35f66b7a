// What the FFI layer and the instruction-set specific kernels agree on.
//
// A layer maps x (C, N, n_in) to y (C, N, n_out) for each of P models. Component 0 is the value,
// the next `first` components are directional derivatives and the last `second` are second
// derivatives along the first `second` of those directions:
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
inline constexpr int kMaxSiluOrder = 12;  // the highest derivative of SiLU in the trilinear form

// How many directions have a first derivative, and how many of those a second one too.
struct Derivatives {
  int first, second;
};

// Every pair with a fused kernel. Cubics have them all, other degrees the value alone.
inline constexpr Derivatives kDerivatives[] = {{0, 0}, {1, 1}, {2, 1}, {2, 2}};

constexpr bool has_jet(std::int64_t degree, std::int64_t first, std::int64_t second) {
  if (degree < 1 || degree > kMaxDegree) return false;
  for (const Derivatives& pair : kDerivatives)
    if (first == pair.first && second == pair.second) return degree == 3 || first == 0;
  return false;
}

struct Spline {
  std::int64_t grid;
  int degree;
  double lo, hi;
};

// A basis without local support: all of its functions are computed at every point. Polynomials are
// of u = tanh(z) or of z clipped to [-1, 1], with z = (2 x - lo - hi) / (hi - lo).
enum class Family : std::int64_t {
  kChebyshev,  // T_1 .. T_count, with `constant` from T_0
  kLegendre,   // P_1 .. P_count, with `constant` from P_0
  kFourier,    // cos(n scale x) for n = 1 .. count, then sin(n scale x)
  kGaussian,   // exp(-((x - c_m) / scale)^2 / 2) with `count` centers from lo to hi
};

inline constexpr std::int64_t kMaxFunctions = 1024;

struct Functions {
  Family family;
  std::int64_t count;
  bool constant, tanh;
  double lo, hi, scale;

  bool polynomial() const { return family == Family::kChebyshev || family == Family::kLegendre; }
  std::int64_t size() const {
    if (family == Family::kFourier) return 2 * count;
    return count + (polynomial() && constant);
  }
};

template <class T>
struct Operand {
  const T* data = nullptr;
  std::int64_t stride = 0;  // elements from one model to the next, 0 when shared
  const T* at(std::int64_t model) const { return data + model * stride; }
};

struct AdamOptions {
  double b1, b2, eps, eps_root;
};

template <class T>
struct JetArgs {
  Spline spline;
  bool residual;
  int first, second;
  std::int64_t models, n, n_in, n_out;
  Operand<T> x, r, c, b, bias, g;
  T* y;                          // forward
  bool want_x, want_w;           // backward: of the inputs, of the weights
  T *dx, *dr, *dc, *db, *dbias;  // null where not wanted
};

// The same layer with another basis; `spline` is not used.
template <class T>
struct GlobalArgs {
  JetArgs<T> layer;
  Functions functions;
};

// Q = sum h[n,o] u[n,i] phi'(x[n,i]) + g[n,o] u[n,i] v[n,i] phi''(x[n,i]) of a layer of cubics,
// differentiated in everything but v; its weights, and their gradients, are those of `layer`.
template <class T>
struct SecondArgs {
  JetArgs<T> layer;
  Operand<T> u, v, h, g;  // v, and with it g, or h may be missing
  T *dh, *dg, *dx, *du;   // null where not wanted
};

// F = sum a[n,i] W[i,m,o] g[n,o] B_m^(order)(x[n,i]), differentiated in g, a or W.

template <class T>
struct TrilinearArgs {
  Spline spline;
  int order;
  bool residual;  // whether SiLU is one more function, the last
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

// Adam: m' = (1 - b1) g + b1 m, v' = (1 - b2) g^2 + b2 v and the update
// -rate (m' / first) / (sqrt(v' / second + eps_root) + eps), for (models, n) elements. Every result
// may be one of the operands.
template <class T>
struct AdamArray {
  std::int64_t n;
  const T *w, *g, *m, *v;
  T* out;  // the update or, if w is not null, w with the update added
  T *m_out, *v_out;
};

template <class T>
struct AdamArgs {
  AdamOptions options;
  std::int64_t models, n;  // elements of all arrays of a model
  const T* step;           // (models, 3): rate, and the bias corrections `first` and `second`
  const AdamArray<T>* arrays;
  std::int64_t count;  // of arrays
};

struct Range {
  std::int64_t begin, end;
};

// A range is of samples, outputs or input features: sums never cross two ranges, so results do not
// depend on how many threads share the work. Layers of fewer outputs than ForwardTasks splits
// compute all of them whatever the range.
template <class T>
struct Kernels {
  void (*jet_forward)(const JetArgs<T>&, std::int64_t model, Range samples, Range outputs);
  void (*jet_backward)(const JetArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*trilinear_y)(const TrilinearArgs<T>&, std::int64_t model, std::int64_t begin,
                      std::int64_t end);
  void (*trilinear_a)(const TrilinearArgs<T>&, std::int64_t model, std::int64_t begin,
                      std::int64_t end);
  void (*trilinear_w)(const TrilinearArgs<T>&, std::int64_t model, std::int64_t begin,
                      std::int64_t end);
  void (*pair_a)(const PairArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*pair_w)(const PairArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*total)(const T* x, std::int64_t n, T* out, std::int64_t begin, std::int64_t end);
  int few_outputs;  // that second_outputs and second_inputs take at most
  void (*second_outputs)(const SecondArgs<T>&, std::int64_t model, std::int64_t begin,
                         std::int64_t end);
  void (*second_inputs)(const SecondArgs<T>&, std::int64_t model, std::int64_t begin,
                        std::int64_t end);
  void (*adam)(const AdamArgs<T>&, std::int64_t model, std::int64_t begin, std::int64_t end);
  void (*global_forward)(const GlobalArgs<T>&, std::int64_t model, std::int64_t begin,
                         std::int64_t end);
  void (*global_backward)(const GlobalArgs<T>&, std::int64_t model, std::int64_t begin,
                          std::int64_t end);
};

struct KernelTable {
  const char* isa;
  double (*fma_rate)();  // floating-point operations per second of one core, float32, measured now
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
