// Reads and writes tiles of tensors: parts at ranges of positions (plan/exchange.h).
#pragma once

#include <ATen/ATen.h>

#include "plan/exchange.h"

namespace heddle {

// The elements of a tile. A view where the tile is one block, otherwise a copy.
at::Tensor TakeTile(const at::Tensor& tensor, const Tile& tile);
// Writes the elements of a tile.
void PutTile(at::Tensor& tensor, const Tile& tile, const at::Tensor& values);
// A tile, contiguous and padded at the end of every dimension to `shape`.
at::Tensor Padded(const at::Tensor& tensor, const Shape& shape);
// The first elements of every dimension.
at::Tensor Unpadded(const at::Tensor& tensor, const Shape& shape);

}  // namespace heddle
