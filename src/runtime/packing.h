// Gather and scatter between the dense numbers of a pruned parameter and the ones that are kept. Nothing here makes the
// host wait for a device.
#pragma once

#include <ATen/ATen.h>

#include "plan/pruning.h"

namespace heddle {

// The positions of the kept weights in a tile, ascending: int32, or int64 where the tile has 2^31 elements or more.
at::Tensor IndexOf(const Mask& mask, const std::string& parameter, const Shape& shape,
                   const Tile& tile);

// dense[index], of the same type. `dense` may have any shape and is read as if it were flat.
at::Tensor Compress(const at::Tensor& dense, const at::Tensor& index);

// dense[index] = kept, converted to the type of `dense`, which is flat.
void ExpandInto(const at::Tensor& kept, const at::Tensor& index, const at::Tensor& dense);

}  // namespace heddle
