// Tensors of files (graph/tensor.h) to tensors of libtorch and back.
#pragma once

#include <ATen/ATen.h>

#include "graph/tensor.h"

namespace heddle {

// Both copy; tensors are on the CPU.
at::Tensor ToTorchTensor(const HostTensor& tensor);
HostTensor ToHostTensor(const at::Tensor& tensor);

}  // namespace heddle
