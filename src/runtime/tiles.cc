#include "runtime/tiles.h"

#include "base/check.h"

namespace heddle {
namespace {

at::Tensor Indices(const Ranges& ranges, const at::Device& device) {
  std::vector<at::Tensor> parts;
  for (Block range : ranges) parts.push_back(at::arange(range.begin, range.end, at::kLong));
  at::Tensor all = parts.empty() ? at::empty({0}, at::kLong) : at::cat(parts);
  return all.to(device);
}

}  // namespace

at::Tensor TakeTile(const at::Tensor& tensor, const Tile& tile) {
  HEDDLE_CHECK_EQ(static_cast<size_t>(tensor.dim()), tile.size());
  at::Tensor part = tensor;
  for (size_t d = 0; d < tile.size(); ++d) {
    int64_t dim = static_cast<int64_t>(d);
    if (tile[d].empty()) {
      part = part.narrow(dim, 0, 0);
    } else if (tile[d].size() == 1) {
      if (tile[d][0].size() != part.size(dim))
        part = part.narrow(dim, tile[d][0].begin, tile[d][0].size());
    } else {
      part = part.index_select(dim, Indices(tile[d], tensor.device()));
    }
  }
  return part;
}

void PutTile(at::Tensor& tensor, const Tile& tile, const at::Tensor& values) {
  at::Tensor part = tensor;
  size_t scattered = tile.size();  // the dimension of several ranges that is written by index
  for (size_t d = 0; d < tile.size(); ++d) {
    int64_t dim = static_cast<int64_t>(d);
    if (tile[d].empty()) return;
    if (tile[d].size() == 1) {
      if (tile[d][0].size() != part.size(dim))
        part = part.narrow(dim, tile[d][0].begin, tile[d][0].size());
    } else if (scattered == tile.size()) {
      scattered = d;
    } else {
      // There are two such dimensions: write range by range along this one.
      int64_t at = 0;
      for (Block range : tile[d]) {
        Tile one = tile;
        one[d] = {range};
        PutTile(tensor, one, values.narrow(dim, at, range.size()));
        at += range.size();
      }
      return;
    }
  }
  if (scattered == tile.size()) {
    part.copy_(values);
  } else {
    part.index_copy_(static_cast<int64_t>(scattered), Indices(tile[scattered], tensor.device()),
                     values);
  }
}

at::Tensor Padded(const at::Tensor& tensor, const Shape& shape) {
  if (tensor.sizes() == at::IntArrayRef(shape)) return tensor.contiguous();
  at::Tensor padded = at::zeros(shape, tensor.options());
  if (tensor.numel() != 0) Unpadded(padded, tensor.sizes().vec()).copy_(tensor);
  return padded;
}

at::Tensor Unpadded(const at::Tensor& tensor, const Shape& shape) {
  at::Tensor part = tensor;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t dim = static_cast<int64_t>(d);
    if (part.size(dim) != shape[d]) part = part.narrow(dim, 0, shape[d]);
  }
  return part;
}

}  // namespace heddle
