// The layer of a basis without local support, compiled in global.cc.
#pragma once

#include "kernel.h"

namespace kandle {
namespace KANDLE_ISA {

// Samples begin .. end of one model.
template <class T>
void global_forward(const GlobalArgs<T>& args, std::int64_t model, std::int64_t begin,
                    std::int64_t end);

// Input features begin .. end of one model.
template <class T>
void global_backward(const GlobalArgs<T>& args, std::int64_t model, std::int64_t begin,
                     std::int64_t end);

}  // namespace KANDLE_ISA
}  // namespace kandle
