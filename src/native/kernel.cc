// The kernels of one instruction set: compiled once for each, with KANDLE_ISA naming its namespace.
#include "kernel.h"

#include <chrono>

#include "general.h"
#include "gradient.h"
#include "narrow.h"
#include "slim.h"

#define KANDLE_STRING_(x) #x
#define KANDLE_STRING(x) KANDLE_STRING_(x)

namespace kandle {
namespace KANDLE_ISA {
namespace {

// Cubics have their own code; other degrees share one, for values alone.
bool has_jet(int degree, int first, int second) {
  if (first == 0 && second == 0) return true;
  return degree == 3 && ((first == 1 && second == 1) || (first == 2 && (second == 1 || second == 2)));
}

template <class T, int L, class Work>
void with_jet(const JetArgs<T>& a, Work work) {
  if (a.first == 0 && a.spline.degree == 3) return work(Gradient<T, L, 3, 0, 0>(a));
  if (a.first == 0) return work(Gradient<T, L, 0, 0, 0>(a));
  if (a.first == 1) return work(Gradient<T, L, 3, 1, 1>(a));
  if (a.second == 1) return work(Gradient<T, L, 3, 2, 1>(a));
  return work(Gradient<T, L, 3, 2, 2>(a));
}

// Cubics with few outputs have layouts of their own.
template <class T, template <class, int, int> class Layout, class Work>
void with_cubic(const JetArgs<T>& a, Work work) {
  if (a.first == 0) return work(Layout<T, 0, 0>(a));
  if (a.first == 1) return work(Layout<T, 1, 1>(a));
  if (a.second == 1) return work(Layout<T, 2, 1>(a));
  return work(Layout<T, 2, 2>(a));
}

template <class T, int D, int S>
using Slim1 = Slim<T, kLanes<T>, D, S>;
template <class T, int D, int S>
using SlimHalf = Slim<T, std::max(kLanes<T> / 2, 2), D, S>;

template <class T, class Work>
void dispatch(const JetArgs<T>& a, Work work) {
  constexpr int L = kLanes<T>;
  if (a.spline.degree == 3) {
    if (a.n_out == 1) return with_cubic<T, Narrow>(a, work);
    if (L > 4 && a.n_out <= L / 2) return with_cubic<T, SlimHalf>(a, work);
    if (a.n_out <= L) return with_cubic<T, Slim1>(a, work);
  }
  with_jet<T, L>(a, work);
}

template <class T>
void jet_forward(const JetArgs<T>& a, std::int64_t model, std::int64_t begin, std::int64_t end) {
  dispatch(a, [&](const auto& jet) { jet.forward(model, begin, end); });
}

template <class T>
void jet_backward(const JetArgs<T>& a, std::int64_t model, std::int64_t begin, std::int64_t end) {
  dispatch(a, [&](const auto& jet) { jet.backward(model, begin, end); });
}

template <class T>
constexpr Kernels<T> kernels() {
  return {has_jet,        jet_forward<T>, jet_backward<T>, trilinear_y<T>, trilinear_a<T>,
          trilinear_w<T>, pair_a<T>,      pair_w<T>,       total<T>};
}

// Twelve independent chains of fused multiply-adds, enough to hide the latency of each; the best of
// several short trials, because other work can only slow a trial down.
double fma_rate() {
  using S = Simd<float, kLanes<float>>;
  constexpr int kChains = 12, kRepeats = 1 << 18;
  double best = 0.0;
  for (int trial = 0; trial < 12; ++trial) {
    typename S::Vec chain[kChains];
    for (int j = 0; j < kChains; ++j) chain[j] = S::splat(0.5f + 0.01f * static_cast<float>(j));
    typename S::Vec scale = S::splat(0.999f), shift = S::splat(0.001f);
    const auto start = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      asm volatile("" : "+m"(scale), "+m"(shift));  // hides that the operands are constant
      const typename S::Vec a = scale, b = shift;
#pragma GCC unroll 4
      for (int inner = 0; inner < 4; ++inner)
#pragma GCC unroll 12
        for (int j = 0; j < kChains; ++j) chain[j] = chain[j] * a + b;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    typename S::Vec sum = chain[0];
    for (int j = 1; j < kChains; ++j) sum += chain[j];
    asm volatile("" : "+m"(sum));  // keeps the sums alive
    best = std::max(best, 2.0 * 4 * kRepeats * kChains * kLanes<float> / seconds.count());
  }
  return best;
}

}  // namespace

const KernelTable& table() {
  static const KernelTable instance{KANDLE_STRING(KANDLE_ISA), fma_rate, kernels<float>(), kernels<double>()};
  return instance;
}

}  // namespace KANDLE_ISA
}  // namespace kandle
