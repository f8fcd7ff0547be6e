// Tensors between files and libtorch.
#pragma once

#include <ATen/ATen.h>

#include "graph/tensor.h"

namespace heddle {

// Copies, on the CPU.
at::Tensor ToTorchTensor(const HostTensor& tensor);
HostTensor ToHostTensor(const at::Tensor& tensor);

}  // namespace heddle
