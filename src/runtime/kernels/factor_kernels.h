// Kernels that compute the gradient of a weight from its factors (ops/gradient_factors.h), on local shards.
#pragma once

#include "runtime/kernels/kernel.h"

namespace heddle {

// `call.operands` are the operands among the factors, in the order of the declaration; `gradient` is that of the node's
// result. Gives the gradient of the weight, in its local shape. Where it is split besides (tensor parallelism), the
// blocks of the call say how.
using FactorKernelFn = at::Tensor (*)(const KernelCall& call, const at::Tensor& gradient);

// With the windows of its forward kernel (window.cc).
at::Tensor ConvWeightGradient(const KernelCall& call, const at::Tensor& gradient);

// Null where there is none.
FactorKernelFn FindFactorKernel(std::string_view op, size_t operand);

}  // namespace heddle
