// The kernels of one instruction set: compiled once for each, with KANDLE_ISA naming its namespace.
#include "kernel.h"

#include <chrono>

#include "adam.h"
#include "derivatives.h"
#include "general.h"
#include "global.h"
#include "gradient.h"
#include "lookup.h"
#include "narrow.h"
#include "second.h"
#include "slim.h"
#include "trilinear.h"
#include "wide.h"

#define KANDLE_STRING_(x) #x
#define KANDLE_STRING(x) KANDLE_STRING_(x)

namespace kandle {
namespace KANDLE_ISA {
namespace {

// Chooses the layout: cubics with few outputs have their own, other degrees share one.
template <class T, class Work>
void dispatch(const JetArgs<T>& a, const Work& work) {
  constexpr int L = kLanes<T>, kHalf = std::max(L / 2, 2);
  if (a.spline.degree != 3) return work(Gradient<T, L, 0, 0, 0>(a));
  with_derivatives(a.first, a.second, [&](auto first, auto second) {
    constexpr int D = first(), S = second();
    if (a.n_out == 1) return work(Narrow<T, D, S>(a));
    if (L > 4 && a.n_out <= L / 2) return work(Slim<T, kHalf, D, S>(a));
    if (a.n_out <= L) return work(Slim<T, L, D, S>(a));
    if constexpr (D == 0) {
      work(Wide<T>(a));
    } else {
      work(Gradient<T, L, 3, D, S>(a));
    }
  });
}

// Whether a forward pass with lookups is the faster one, by measurement. One register per
// coefficient pays up to a vector of outputs, while the packed weights fit the second-level cache.
// The number of samples does not count: the bits of a row would depend on the other rows.
template <class T>
bool prefers_lookup(const JetArgs<T>& a) {
  if (a.spline.degree != 3) return false;
  if (a.n_out == 1) return false;  // narrow.h, without a table
  if (a.first > 0) return a.n_out <= 4;
  if (a.n_out <= 8) return true;
  return cell_count(a.spline) <= kLanes<T> && a.n_out <= kLanes<T> && a.n_in * a.n_out <= 4096;
}

template <class T>
void jet_forward(const JetArgs<T>& a, std::int64_t model, Range samples, Range outputs) {
  const auto forward = [&](const auto& layer) { layer.forward(model, samples, outputs); };
  bool done = false;
  if (prefers_lookup(a))
    with_derivatives(a.first, a.second, [&](auto first, auto second) {
      done = with_lookup<T, first(), second()>(a, forward);
    });
  if (!done) dispatch(a, forward);
}

template <class T>
void jet_backward(const JetArgs<T>& a, std::int64_t model, std::int64_t begin, std::int64_t end) {
  dispatch(a, [&](const auto& jet) { jet.backward(model, begin, end); });
}

template <class T>
constexpr Kernels<T> kernels() {
  return {jet_forward<T>,    jet_backward<T>,   trilinear_y<T>,   trilinear_a<T>,
          trilinear_w<T>,    pair_a<T>,         pair_w<T>,        total<T>,
          kLanes<T>,         second_outputs<T>, second_inputs<T>, adam<T>,
          global_forward<T>, global_backward<T>};
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
  static const KernelTable instance{KANDLE_STRING(KANDLE_ISA), fma_rate, kernels<float>(),
                                    kernels<double>()};
  return instance;
}

}  // namespace KANDLE_ISA
}  // namespace kandle
