// From run-time numbers of derivatives to kernels compiled for them.
#pragma once

#include <iterator>
#include <type_traits>

#include "kernel.h"

namespace kandle {
namespace KANDLE_ISA {

// Calls visit(first, second) with the two numbers as compile-time constants.
template <std::size_t Index = 0, class Visit>
void with_derivatives(int first, int second, const Visit& visit) {
  constexpr Derivatives pair = kDerivatives[Index];
  if constexpr (Index + 1 < std::size(kDerivatives))
    if (first != pair.first || second != pair.second)
      return with_derivatives<Index + 1>(first, second, visit);
  visit(std::integral_constant<int, pair.first>{}, std::integral_constant<int, pair.second>{});
}

}  // namespace KANDLE_ISA
}  // namespace kandle
