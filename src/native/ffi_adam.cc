// XLA's FFI handlers of Adam's step: any number of arrays in one call.
#include <cstdint>
#include <string>
#include <vector>

#include "active.h"
#include "ffi.h"

namespace kandle {
namespace {

// The arrays of a call, role by role: `roles` times as many as are advanced.
template <class T>
class AdamCall {
 public:
  AdamCall(const ffi::RemainingArgs& before, const ffi::RemainingRets& after, std::size_t roles)
      : before_(before), after_(after), count_(before.size() / roles) {
    check_.require(count_ > 0 && before.size() == roles * count_, "the number of operands",
                   [&] { return "a positive multiple of " + std::to_string(roles); });
    check_.require(after.size() == kResults * count_, "the number of results",
                   [&] { return std::to_string(kResults * count_); });
  }

  // Operands are (w,) g, m and v; results w or the update, m and v.
  ffi::Error run(ffi::ThreadPool& pool, const AdamOptions& options, In step, bool apply) {
    AdamArgs<T> a{options};
    a.models = check_.extent<T>("step", step, 2, 0);
    check_.between("step", a.models, 1, kMaxBytes);
    if (check_.ok()) a.step = check_.elements<T>("step", step, 3 * a.models);
    std::vector<AdamArray<T>> arrays(check_.ok() ? count_ : 0);
    for (std::size_t k = 0; k < arrays.size() && check_.ok(); ++k) {
      AdamArray<T>& own = arrays[k];
      own.n = size(result(0, k), a.models);
      const std::int64_t all = a.models * own.n;
      std::size_t role = 0;
      if (apply) own.w = check_.elements<T>("w", operand(role++, k), all);
      own.g = check_.elements<T>("g", operand(role++, k), all);
      own.m = check_.elements<T>("m", operand(role++, k), all);
      own.v = check_.elements<T>("v", operand(role, k), all);
      own.out = check_.elements<T>("out", result(0, k), all);
      own.m_out = check_.elements<T>("m_out", result(1, k), all);
      own.v_out = check_.elements<T>("v_out", result(2, k), all);
      a.n += own.n;
    }
    if (!check_.ok()) return check_.error();
    a.arrays = arrays.data(), a.count = static_cast<std::int64_t>(count_);
    return share(pool, a.models * a.n, a.models, a.n,
                 [&](std::int64_t model, std::int64_t begin, std::int64_t end) {
                   active<T>().adam(a, model, begin, end);
                 });
  }

 private:
  static constexpr std::size_t kResults = 3;

  In operand(std::size_t role, std::size_t k) const {
    return *before_.get<ffi::AnyBuffer>(role * count_ + k);
  }
  In result(std::size_t role, std::size_t k) const {
    return **after_.get<ffi::AnyBuffer>(role * count_ + k);
  }

  // Elements per model of an array of any shape that leads with the models, on one axis or several:
  // a reshaped operand would be copied before it is updated in place.
  std::int64_t size(In array, std::int64_t models) {
    std::int64_t leading = 1;
    for (std::int64_t extent : array.dimensions())
      if (leading < models) leading *= extent;
    check_.require(leading == models, "step", [&] {
      return "of as many models as 'out' leads with, got " + std::to_string(models);
    });
    return static_cast<std::int64_t>(array.element_count()) / models;
  }

  const ffi::RemainingArgs& before_;
  const ffi::RemainingRets& after_;
  const std::size_t count_;
  Check check_;
};

template <class T>
ffi::Error adam_update(ffi::ThreadPool pool, In step, ffi::RemainingArgs before,
                       ffi::RemainingRets after, double b1, double b2, double eps,
                       double eps_root) {
  return AdamCall<T>(before, after, 3).run(pool, {b1, b2, eps, eps_root}, step, false);
}

template <class T>
ffi::Error adam_apply(ffi::ThreadPool pool, In step, ffi::RemainingArgs before,
                      ffi::RemainingRets after, double b1, double b2, double eps, double eps_root) {
  return AdamCall<T>(before, after, 4).run(pool, {b1, b2, eps, eps_root}, step, true);
}

auto bind_adam() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .RemainingRets()
      .Attr<double>("b1")
      .Attr<double>("b2")
      .Attr<double>("eps")
      .Attr<double>("eps_root");
}

}  // namespace
}  // namespace kandle

KANDLE_HANDLER(adam_update, kandle::bind_adam());
KANDLE_HANDLER(adam_apply, kandle::bind_adam());
