// A whole network in one call: its values, and the first three derivatives that training needs.
//
// Layer l maps h_l (n, n_in) to h_{l+1} (n, n_out), for l = 0 .. L-1. A "level" is a value at every
// h_l, given by three pointers: to that of the network's input h_0, to those of h_1 .. h_{L-1}, one
// after the other, and to that of its output h_L. With F = h_L and cotangents g_L of it:
//
//   forward   h_0                      -> h_l
//   backward  g_L                      -> g_l = d(g F)/dh_l, and d(g F)/dweights
//   second    u_0, with all g          -> u_l = dh_l along u, a_l = d(g dF)/dh_l, and in the weights
//   third     v_0 and maybe q_L,       -> p_l, q_l, w_L: the gradients of sum v_0 a_0 + q_L u_L in
//             with all g, u and a         h_l, u_l and g_L, and those in the weights
//
// A pointer to what a call computes may be null: it is then computed only if something else needs
// it. The sums are those of the layers one by one, so a call has the bits of its layers' calls.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "calls.h"

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
    Status status = kDone;
    for (std::int64_t l = layers_ - 1; l >= lowest(kG) && status == kDone; --l) {
      Sums sums(*this, l, l > lowest(kG) ? level(kG, l) : given(kG, l));
      status = sums.backward(given(kG, l + 1));
    }
    return status;
  }

  Status second() {
    const std::int64_t last = layers_ - 1;
    Status status = kDone;
    for (std::int64_t l = 0; l < layers_ && status == kDone; ++l)
      if (l < last || given(kU, layers_))
        status = run_second(outputs(l, given(kU, l), nullptr, level(kU, l + 1), nullptr));
    for (std::int64_t l = last; l >= lowest(kA) && status == kDone; --l) {
      Sums sums(*this, l, l > lowest(kA) ? level(kA, l) : given(kA, l));
      status = sums.inputs({given(kU, l), nullptr, given(kG, l + 1), nullptr}, nullptr);
      if (l < last && status == kDone) status = sums.backward(given(kA, l + 1));
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
        add(more.get(), n_ * n_out(l), w);
      }
    }
    for (std::int64_t l = last; l >= 0 && status == kDone; --l) {
      if (l == 0 && !given(kP, 0) && !given(kQ, 0) && !wants_weights(0)) break;
      Sums sums(*this, l, l > 0 ? level(kP, l) : given(kP, l));
      const T* g = given(kG, l + 1);
      status = sums.inputs({given(kU, l), given(kV, l), given(kQ, l + 1), g},
                           l > 0 ? level(kQ, l) : given(kQ, l));
      if (l < last && status == kDone)
        status = sums.inputs({given(kV, l), nullptr, given(kA, l + 1), nullptr}, nullptr);
      if (l > 0 && status == kDone)
        status = sums.inputs({given(kW, l), nullptr, g, nullptr}, nullptr);
      if (l < last && status == kDone) status = sums.backward(given(kP, l + 1));
    }
    return status;
  }

 private:
  // The levels in the order in which the pointers to them follow each other.
  enum Level { kH, kG, kU, kA, kV, kW, kQ, kP, kLevels };

  // The operands of Q = sum h u phi' + g u v phi''.
  struct Directions {
    const T *u, *v, *h, *g;
  };

  // The gradients of one layer: each call adds to what the calls before it have found.
  class Sums {
   public:
    // `x` may be null: then the gradient in the layer's inputs is not computed.
    Sums(Network& network, std::int64_t l, T* x)
        : network_(network), l_(l), want_w_(network.wants_weights(l)), total_{x} {
      if (!want_w_) return;
      const std::int64_t edges = network.n_in(l) * network.n_out(l);
      const std::int64_t sizes[kWeights] = {
          edges, edges, edges * (network.shape(l, 2) + network.shape(l, 3)), network.n_out(l)};
      for (int j = 0; j < kWeights; ++j) {
        T* target = static_cast<T*>(network.gradients_[kWeights * l + j]);
        total_.w[j] = target ? target : network.keep(sizes[j]);
        size_[j] = sizes[j];
      }
    }

    // Of sum g y.
    Status backward(const T* g) {
      if (!total_.x && !want_w_) return kDone;
      const Targets to = targets();
      JetArgs<T> a = network_.layer(l_);
      a.g = {g, 0};
      a.want_x = to.x != nullptr, a.want_w = want_w_;
      a.dx = to.x, a.dr = to.w[0], a.dc = to.w[1], a.db = to.w[2], a.dbias = total_.w[3];
      const Status status = share(a, a.n_in, network_.threads_, active<T>().jet_backward);
      commit(to);
      return status;
    }

    // Of Q, in everything but h and g; `du` may be null.
    Status inputs(const Directions& at, T* du) {
      if (!total_.x && !want_w_ && !du) return kDone;
      const Targets to = targets();
      SecondArgs<T> p{};
      p.layer = network_.layer(l_);
      p.layer.want_w = want_w_;
      p.layer.dr = to.w[0], p.layer.dc = to.w[1], p.layer.db = to.w[2];
      p.u = {at.u, 0}, p.v = {at.v, 0}, p.h = {at.h, 0}, p.g = {at.g, 0};
      p.dx = to.x, p.du = du;
      const Status status = network_.run_second(p);
      commit(to);
      return status;
    }

   private:
    struct Targets {
      T* x = nullptr;
      T* w[kWeights] = {};  // the bias is in one call at most: it needs no sum
    };

    Targets targets() {
      if (!begun_) return total_;
      if (!spare_.x && total_.x) spare_.x = network_.keep(inputs_size());
      for (int j = 0; want_w_ && j < 3; ++j)
        if (!spare_.w[j]) spare_.w[j] = network_.keep(size_[j]);
      return spare_;
    }

    void commit(const Targets& to) {
      if (begun_) {
        if (total_.x) add(to.x, inputs_size(), total_.x);
        for (int j = 0; want_w_ && j < 3; ++j) add(to.w[j], size_[j], total_.w[j]);
      }
      begun_ = true;
    }

    std::int64_t inputs_size() const { return network_.n_ * network_.n_in(l_); }

    Network& network_;
    const std::int64_t l_;
    const bool want_w_;
    bool begun_ = false;
    std::int64_t size_[kWeights] = {};
    Targets total_, spare_;
  };

  static void add(const T* terms, std::int64_t size, T* sum) {
    for (std::int64_t j = 0; j < size; ++j) sum[j] += terms[j];
  }

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

  Status run_second(const SecondArgs<T>& p) const { return kandle::run_second(p, threads_); }

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
#define KANDLE_C_NETWORKS(T, suffix)            \
  KANDLE_C_NETWORK(T, suffix, forward, false)   \
  KANDLE_C_NETWORK(T, suffix, backward, false)  \
  KANDLE_C_NETWORK(T, suffix, second, true)     \
  KANDLE_C_NETWORK(T, suffix, third, true)

extern "C" {

KANDLE_C_NETWORKS(float, f32)
KANDLE_C_NETWORKS(double, f64)

}  // extern "C"
