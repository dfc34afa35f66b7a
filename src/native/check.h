// Checks of a call's arguments: nothing that reaches a kernel is taken on trust.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "active.h"
#include "kernel.h"
#include "xla/ffi/api/ffi.h"

namespace kandle {

template <class T>
inline constexpr xla::ffi::DataType kType =
    sizeof(T) == 4 ? xla::ffi::DataType::F32 : xla::ffi::DataType::F64;

// Of one array or buffer; far below what overflows, far above what any memory holds.
inline constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;

// Collects the first mistake of a call. A check after it reads nothing and returns zeros, so that
// the checks of a call can be written one after the other.
class Check {
 public:
  bool ok() const { return message_.empty(); }

  xla::ffi::Error error() const { return xla::ffi::Error::InvalidArgument("kandle: " + message_); }

  // Words are put together only where they are needed: most calls have no mistake, and small ones
  // take microseconds.
  template <class Words>
  void require(bool holds, const char* name, const Words& wanted_and_got) {
    if (!holds && ok()) message_ = std::string(name) + " must be " + wanted_and_got();
  }

  void between(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    require(low <= value && value <= high, name, [&] {
      return "between " + std::to_string(low) + " and " + std::to_string(high) + ", got " +
             std::to_string(value);
    });
  }

  // Extent `axis` of an array of the given rank; 0 after a mistake.
  template <class T>
  std::int64_t extent(const char* name, const xla::ffi::AnyBuffer& array, std::size_t rank,
                      std::size_t axis) {
    require(array.element_type() == kType<T>, name, [] {
      return std::string(sizeof(T) == 4 ? "float32" : "float64") + ", got another type";
    });
    const auto dims = array.dimensions();
    require(dims.size() == rank, name, [&] {
      return "of rank " + std::to_string(rank) + ", got rank " + std::to_string(dims.size());
    });
    return ok() ? dims[axis] : 0;
  }

  // An array of shape (1 or models, ...rest) whose model axis, if 1, is shared by all models.
  template <class T>
  Operand<T> operand(const char* name, const xla::ffi::AnyBuffer& array, std::int64_t models,
                     std::initializer_list<std::int64_t> rest) {
    const std::int64_t own = extent<T>(name, array, 1 + rest.size(), 0);
    const std::int64_t size = shape(name, array, own == 1 ? 1 : models, rest);
    if (!ok()) return {};
    return {array.typed_data<T>(), own == 1 ? 0 : size};
  }

  // A result of shape (models, ...rest).
  template <class T>
  T* result(const char* name, const xla::ffi::AnyBuffer& array, std::int64_t models,
            std::initializer_list<std::int64_t> rest) {
    extent<T>(name, array, 1 + rest.size(), 0);
    shape(name, array, models, rest);
    return ok() ? array.typed_data<T>() : nullptr;
  }

  // An array of any shape with this many elements.
  template <class T>
  T* elements(const char* name, const xla::ffi::AnyBuffer& array, std::int64_t count) {
    extent<T>(name, array, array.dimensions().size(), 0);
    const auto got = static_cast<std::int64_t>(array.element_count());
    require(got == count, name, [&] {
      return "of " + std::to_string(count) + " elements, got " + std::to_string(got);
    });
    return ok() ? array.typed_data<T>() : nullptr;
  }

  Spline spline(std::int64_t grid, std::int64_t degree, double lo, double hi) {
    between("grid", grid, 1, kMaxGrid);
    between("degree", degree, 1, kMaxDegree);
    domain(lo, hi);
    return ok() ? Spline{grid, static_cast<int>(degree), lo, hi} : Spline{1, 1, 0.0, 1.0};
  }

  // A basis without local support; `family` counts as in kernel.h.
  Functions functions(std::int64_t family, std::int64_t count, bool constant, bool tanh, double lo,
                      double hi, double scale) {
    between("family", family, 0, static_cast<std::int64_t>(Family::kGaussian));
    between("count", count, 1, kMaxFunctions);
    domain(lo, hi);
    require(std::isfinite(scale) && scale > 0, "scale",
            [&] { return "finite and positive, got " + std::to_string(scale); });
    if (!ok()) return {Family::kChebyshev, 1, false, true, -1.0, 1.0, 1.0};
    return {static_cast<Family>(family), count, constant, tanh, lo, hi, scale};
  }

  // Extents of zero count as one: the size of a buffer must not overflow where one is zero either.
  void size(const char* name, std::initializer_list<std::int64_t> extents) {
    std::int64_t bytes = 8;
    bool fits = true;
    for (const std::int64_t extent : extents)
      fits = fits && extent >= 0 &&
             !__builtin_mul_overflow(bytes, extent > 1 ? extent : 1, &bytes) && bytes <= kMaxBytes;
    require(fits, name, [] { return "at most " + std::to_string(kMaxBytes) + " bytes, got more"; });
  }

 private:
  void domain(double lo, double hi) {
    require(std::isfinite(lo), "lo", [&] { return "finite, got " + std::to_string(lo); });
    require(std::isfinite(hi - lo) && lo < hi, "hi", [&] {
      return "finite and above lo = " + std::to_string(lo) + ", got " + std::to_string(hi);
    });
  }

  // The elements of one model, after comparing every extent.
  std::int64_t shape(const char* name, const xla::ffi::AnyBuffer& array, std::int64_t models,
                     std::initializer_list<std::int64_t> rest) {
    if (!ok()) return 0;
    const auto dims = array.dimensions();
    bool equal = dims[0] == models;
    std::int64_t size = 1;
    std::size_t axis = 1;
    for (const std::int64_t extent : rest)
      equal = equal && dims[axis++] == extent && !__builtin_mul_overflow(size, extent, &size);
    require(equal, name, [&] {
      std::string wanted = std::to_string(models), got = std::to_string(dims[0]);
      std::size_t at = 1;
      for (const std::int64_t extent : rest)
        wanted += ", " + std::to_string(extent), got += ", " + std::to_string(dims[at++]);
      return "of shape (" + wanted + "), got (" + got + ")";
    });
    return size;
  }

  std::string message_;
};

}  // namespace kandle
