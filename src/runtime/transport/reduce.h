// Reductions of the element types of libtorch: bf16 and f16 are summed in f32 and rounded once.
#pragma once

#include <ATen/ATen.h>

#include "host/transport/reduce.h"

namespace heddle {

template <>
struct AccumulatorOf<at::BFloat16> {
  using Type = float;
};
template <>
struct AccumulatorOf<at::Half> {
  using Type = float;
};

}  // namespace heddle
