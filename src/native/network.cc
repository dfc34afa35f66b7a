// A whole network in one call: its values, and the first three derivatives that training needs.
//
// Layer l maps h_l (n, n_in) to h_{l+1} (n, n_out), for l = 0 .. L-1. A "level" is a value at every
// h_l, given by three pointers: to that of the network's input h_0, to those of h_1 .. h_{L-1}, one
// after the other, and to that of its output h_L. With F = h_L and cotangents g_L of it:
//
//   forward   h_0                        -> h_l
//   backward  g_L                        -> g_l = d(g F)/dh_l
//   second    u_0, all g                 -> u_l = dh_l along u, a_l = d(g dF)/dh_l
//   third     v_0, maybe q_L, all g, u, a -> p_l, q_l, w_L: the gradients of sum v_0 a_0 + q_L u_L
//                                           in h_l, u_l and g_L
//
// and, but for forward, the gradients of the same sums in the weights.
//
// A pointer to what a call computes may be null: it is then computed only if something else needs
// it. Values and gradients have the bits of the layers called one by one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include "calls.h"
#include "mixed.h"

namespace kandle {
namespace {

constexpr int kShape = 5;    // n_in, n_out, grid, degree, residual: the integers of a layer
constexpr int kWeights = 4;  // r, c, b, bias

template <class T>
class Network {
 public:
  Network(const std::int64_t* shapes, const double* domains, std::int64_t layers, std::int64_t n,
          void* const* pointers, std::int64_t threads)
      : shapes_(shapes),
        domains_(domains),
        layers_(layers),
        n_(n),
        threads_(threads),
        weights_(pointers),
        gradients_(pointers + kWeights * layers),
        levels_(pointers + 2 * kWeights * layers) {}

  Status check(bool second) const {
    if (layers_ < 1 || n_ < 0) return kBadNetwork;
    for (std::int64_t l = 0; l < layers_; ++l) {
      const double lo = domains_[2 * l], hi = domains_[2 * l + 1];
      if (!is_spline(shape(l, 2), shape(l, 3))) return kBadSpline;
      if (n_in(l) < 1 || n_out(l) < 1 || (l > 0 && n_in(l) != n_out(l - 1))) return kBadNetwork;
      if (!std::isfinite(lo) || !std::isfinite(hi - lo) || !(lo < hi)) return kBadNetwork;
      if (second && (shape(l, 3) != 3 || n_out(l) > active<T>().few_outputs)) return kBadSpline;
    }
    return kDone;
  }

  Status forward() {
    std::vector<JetArgs<T>> args;
    std::vector<T> no_bias;
    for (std::int64_t l = 0; l < layers_; ++l)
      no_bias.resize(std::max<std::size_t>(no_bias.size(), n_out(l)));
    bool over_samples = true;
    std::int64_t work = 0;
    for (std::int64_t l = 0; l < layers_; ++l) {
      args.push_back(layer(l));
      const T* bias = weight(l, 3);
      args.back().bias = {bias ? bias : no_bias.data(), 0};
      args.back().y = level(kH, l + 1);
      over_samples = over_samples && !ForwardTasks<T>(args.back(), threads_).over_outputs;
      work += layer_work(args.back());
    }
    const Kernels<T>& kernels = active<T>();
    if (!over_samples) {
      Status status = kDone;
      for (std::int64_t l = 0; l < layers_ && status == kDone; ++l) {
        const ForwardTasks<T> tasks(args[l], worth(args[l], threads_));
        status = run_tasks(tasks.tasks.count, worth(args[l], threads_),
                           [&](std::int64_t task) { tasks.run(kernels, task); });
      }
      return status;
    }
    // A thread takes its samples through all layers: nobody waits between them.
    const std::int64_t threads = work < kWorthSharing ? 1 : threads_;
    const Tasks tasks(1, n_, threads);
    return run_tasks(tasks.count, threads, [&](std::int64_t task) {
      for (std::int64_t l = 0; l < layers_; ++l)
        kernels.jet_forward(args[l], 0, tasks.range(task), {0, n_out(l)});
    });
  }

  Status backward() {
    const std::int64_t lowest_layer = lowest(kG);
    std::vector<JetArgs<T>> args;  // of the layers from the last one down
    std::int64_t work = 0;
    bool over_samples = true;
    for (std::int64_t l = layers_ - 1; l >= lowest_layer; --l) {
      JetArgs<T> a = layer(l);
      targets(l, a);
      a.g = {given(kG, l + 1), 0};
      a.dx = l > lowest_layer ? level(kG, l) : given(kG, l);
      a.want_x = a.dx != nullptr;
      work += layer_work(a);
      over_samples = over_samples && BackwardTasks<T>::over_samples(a);
      args.push_back(a);
    }
    if (!over_samples) {
      Status status = kDone;
      for (std::size_t j = 0; j < args.size() && status == kDone; ++j)
        status = run_backward(args[j], threads_);
      return status;
    }
    // Every layer has the same chunks of samples: a thread takes one of them through all layers.
    const std::int64_t threads = work < kWorthSharing ? 1 : threads_;
    std::deque<BackwardTasks<T>> tasks;
    for (const JetArgs<T>& a : args) tasks.emplace_back(a, threads);
    const std::int64_t chunks = tasks.empty() ? 0 : tasks.front().count();
    return run_tasks(chunks, threads, [&](std::int64_t chunk) {
      for (const BackwardTasks<T>& layer : tasks) layer.run(active<T>(), chunk);
    });
  }

  Status second() {
    const std::int64_t last = layers_ - 1;
    Status status = kDone;
    for (std::int64_t l = 0; l < layers_ && status == kDone; ++l)
      if (l < last || given(kU, layers_))
        status = run_second(outputs(l, given(kU, l), nullptr, level(kU, l + 1), nullptr));
    for (std::int64_t l = last; l >= lowest(kA) && status == kDone; --l) {
      MixedArgs<T> a = mixed(l);
      a.u = given(kU, l);
      a.p = l < last ? given(kA, l + 1) : nullptr, a.q = given(kG, l + 1);
      a.dx = l > lowest(kA) ? level(kA, l) : given(kA, l);
      status = run_mixed(a);
    }
    return status;
  }

  Status third() {
    const std::int64_t last = layers_ - 1;
    Status status = kDone;
    for (std::int64_t l = 0; l < layers_ && status == kDone; ++l) {
      if (l == last && !given(kW, layers_)) break;
      T *v = l < last ? level(kV, l + 1) : nullptr, *w = level(kW, l + 1);
      status = run_second(outputs(l, given(kV, l), given(kU, l), v, w));
      if (l > 0 && status == kDone) {
        const std::unique_ptr<T[]> more(new T[n_ * n_out(l)]);
        status = run_second(outputs(l, given(kW, l), nullptr, more.get(), nullptr));
        for (std::int64_t j = 0; j < n_ * n_out(l); ++j) w[j] += more[j];
      }
    }
    for (std::int64_t l = last; l >= 0 && status == kDone; --l) {
      if (l == 0 && !given(kP, 0) && !given(kQ, 0) && !wants_weights(0)) break;
      MixedArgs<T> a = mixed(l);
      a.u = given(kU, l), a.v = given(kV, l), a.w = l > 0 ? given(kW, l) : nullptr;
      a.q = given(kQ, l + 1), a.g = given(kG, l + 1);
      if (l < last) a.p = given(kP, l + 1), a.s = given(kA, l + 1);
      a.dx = l > 0 ? level(kP, l) : given(kP, l), a.du = l > 0 ? level(kQ, l) : given(kQ, l);
      status = run_mixed(a);
    }
    return status;
  }

 private:
  // The levels in the order in which the pointers to them follow each other.
  enum Level { kH, kG, kU, kA, kV, kW, kQ, kP, kLevels };

  std::int64_t shape(std::int64_t l, int j) const { return shapes_[kShape * l + j]; }
  std::int64_t n_in(std::int64_t l) const { return shape(l, 0); }
  std::int64_t n_out(std::int64_t l) const { return shape(l, 1); }
  std::int64_t width(std::int64_t l) const { return l < layers_ ? n_in(l) : n_out(l - 1); }
  const T* weight(std::int64_t l, int j) const {
    return static_cast<const T*>(weights_[kWeights * l + j]);
  }

  // What the caller gave, or `level` made; null where neither is.
  T* given(Level which, std::int64_t l) const {
    if (T* own = own_.empty() ? nullptr : own_[which * (layers_ + 1) + l]) return own;
    void* const* ends = levels_ + 3 * which;
    if (l == 0 || l == layers_) return static_cast<T*>(ends[l == 0 ? 0 : 2]);
    T* hidden = static_cast<T*>(ends[1]);
    for (std::int64_t before = 1; hidden && before < l; ++before) hidden += n_ * width(before);
    return hidden;
  }

  T* level(Level which, std::int64_t l) {
    if (T* there = given(which, l)) return there;
    if (own_.empty()) own_.resize(kLevels * (layers_ + 1));
    return own_[which * (layers_ + 1) + l] = keep(n_ * width(l));
  }

  // Memory until the end of the call.
  T* keep(std::int64_t size) {
    memory_.emplace_back(new T[size]);
    return memory_.back().get();
  }

  bool wants_weights(std::int64_t l) const {
    for (int j = 0; j < kWeights; ++j)
      if (gradients_[kWeights * l + j]) return true;
    return false;
  }

  // The lowest layer with a gradient that the caller wants.
  std::int64_t lowest(Level inputs) const {
    std::int64_t l = 0;
    while (l < layers_ && !wants_weights(l) && !given(inputs, l)) ++l;
    return l;
  }

  JetArgs<T> layer(std::int64_t l) const {
    const T *c = weight(l, 1), *r = weight(l, 0);
    return layer_args<T>(given(kH, l), r ? r : c, c, weight(l, 2), 1, n_, n_in(l), n_out(l), 0,
                         shape(l, 2), static_cast<int>(shape(l, 3)), domains_[2 * l],
                         domains_[2 * l + 1], r && shape(l, 4));
  }

  // sum u phi' and sum u v phi'' of a layer; without v, or where null, they are left out.
  SecondArgs<T> outputs(std::int64_t l, const T* u, const T* v, T* slope, T* bend) {
    SecondArgs<T> p{};
    p.layer = layer(l);
    p.u = {u, 0}, p.v = {v, 0};
    p.dh = slope, p.dg = bend;
    return p;
  }

  // Where the gradients in the weights of a layer go; those that nobody wants go nowhere, but the
  // kernels compute all of them or none.
  void targets(std::int64_t l, JetArgs<T>& a) {
    a.want_w = wants_weights(l);
    if (!a.want_w) return;
    const std::int64_t edges = a.n_in * a.n_out, bases = a.spline.grid + a.spline.degree;
    const std::int64_t sizes[kWeights] = {edges, edges, edges * bases, a.n_out};
    T** const to[kWeights] = {&a.dr, &a.dc, &a.db, &a.dbias};
    for (int j = 0; j < kWeights; ++j) {
      T* wanted = static_cast<T*>(gradients_[kWeights * l + j]);
      *to[j] = wanted ? wanted : keep(sizes[j]);
    }
  }

  MixedArgs<T> mixed(std::int64_t l) {
    MixedArgs<T> a{};
    a.layer = layer(l);
    targets(l, a.layer);
    return a;
  }

  Status run_mixed(const MixedArgs<T>& a) const {
    const JetArgs<T>& layer = a.layer;
    // The bias is in p alone.
    if (layer.want_w)
      for (std::int64_t o = 0; o < layer.n_out; ++o) {
        double sum = 0.0;
        for (std::int64_t j = 0; a.p && j < layer.n; ++j) sum += a.p[j * layer.n_out + o];
        layer.dbias[o] = static_cast<T>(sum);
      }
    const std::int64_t threads = shared(layer);
    const Tasks tasks(1, layer.n_in, threads);
    return run_tasks(tasks.count, threads, [&](std::int64_t task) {
      const Range range = tasks.range(task);
      active_mixed<T>()(a, range.begin, range.end);
    });
  }

  Status run_second(const SecondArgs<T>& p) const {
    const std::int64_t threads = shared(p.layer);
    const Tasks tasks(1, p.layer.n, threads);
    return run_tasks(tasks.count, threads, [&](std::int64_t task) {
      const Range range = tasks.range(task);
      active<T>().second_outputs(p, 0, range.begin, range.end);
    });
  }

  // Threads for a layer's higher derivatives. A point takes nanoseconds there however few outputs
  // it has, so that sharing pays earlier than in other calls.
  std::int64_t shared(const JetArgs<T>& layer) const {
    constexpr std::int64_t kPoints = 4096;
    return layer.n * layer.n_in < kPoints ? 1 : threads_;
  }

  const std::int64_t* shapes_;
  const double* domains_;
  const std::int64_t layers_, n_, threads_;
  void *const *weights_, *const *gradients_, *const *levels_;
  std::vector<T*> own_;
  std::vector<std::unique_ptr<T[]>> memory_;
};

template <class T>
int run_network(Status (Network<T>::*work)(), bool second, const std::int64_t* shapes,
                const double* domains, std::int64_t layers, std::int64_t n, void* const* pointers,
                std::int64_t threads) {
  try {
    Network<T> network(shapes, domains, layers, n, pointers, threads);
    const Status status = network.check(second);
    return status == kDone ? (network.*work)() : status;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

}  // namespace
}  // namespace kandle

// Each takes kShape integers and the two ends of the domain per layer, the number of layers and of
// rows, then the pointers to r, c, b and bias per layer, those to their gradients, and the levels
// that the call concerns, in the order of `Level`.
#define KANDLE_C_NETWORK(T, suffix, name, second)                                                \
  int kandle_c_network_##name##_##suffix(const std::int64_t* shapes, const double* domains,      \
                                         std::int64_t layers, std::int64_t n,                    \
                                         void* const* pointers, std::int64_t threads) {          \
    return kandle::run_network<T>(&kandle::Network<T>::name, second, shapes, domains, layers, n, \
                                  pointers, threads);                                            \
  }
#define KANDLE_C_NETWORKS(T, suffix)           \
  KANDLE_C_NETWORK(T, suffix, forward, false)  \
  KANDLE_C_NETWORK(T, suffix, backward, false) \
  KANDLE_C_NETWORK(T, suffix, second, true)    \
  KANDLE_C_NETWORK(T, suffix, third, true)

extern "C" {

KANDLE_C_NETWORKS(float, f32)
KANDLE_C_NETWORKS(double, f64)

}  // extern "C"
