// What is kept of a pruned parameter, taken out of its dense weights or gradients and put back. Nothing here makes the
// host wait for a device.
#pragma once

#include <ATen/ATen.h>

#include "plan/pruning.h"

namespace heddle {

// Where the kept weights of a tile are, in the order of its elements: int32, or int64 where it has 2^31 or more.
at::Tensor IndexOf(const Mask& mask, const std::string& parameter, const Shape& shape,
                   const Tile& tile);

// dense[index], of the same type; `dense` is flat, or will be.
at::Tensor Compress(const at::Tensor& dense, const at::Tensor& index);

// dense[index] = kept, in the type of `dense`, which is flat.
void ExpandInto(const at::Tensor& kept, const at::Tensor& index, const at::Tensor& dense);

}  // namespace heddle
