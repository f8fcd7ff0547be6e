#include "runtime/packing.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "runtime/tiles.h"

namespace heddle {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements for a thread

template <typename T, typename Index>
void Scatter(const T* kept, const Index* index, int64_t count, T* dense) {
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) dense[index[i]] = kept[i];
  });
}

}  // namespace

at::Tensor IndexOf(const Mask& mask, const std::string& parameter, const Shape& shape,
                   const Tile& tile) {
  std::span<const std::byte> bytes = mask.Of(parameter);
  // It is only read.
  at::Tensor whole = at::from_blob(const_cast<std::byte*>(bytes.data()), shape, at::kBool);
  at::Tensor held = TakeTile(whole, tile).reshape({-1});
  at::Tensor index = held.nonzero().reshape({-1});
  return held.numel() > INT32_MAX ? index : index.to(at::kInt);
}

at::Tensor Compress(const at::Tensor& dense, const at::Tensor& index) {
  return dense.reshape({-1}).index_select(0, index);
}

void ExpandInto(const at::Tensor& kept, const at::Tensor& index, const at::Tensor& dense) {
  at::Tensor from = kept.to(dense.scalar_type()).contiguous();
  if (!dense.is_cpu()) {
    dense.index_copy_(0, index.to(at::kLong), from);
    return;
  }
  // index_copy_ takes int64 alone: its index would be as large as what it copies, and again.
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, dense.scalar_type(), "expand", [&] {
    const scalar_t* values = from.data_ptr<scalar_t>();
    scalar_t* to = dense.data_ptr<scalar_t>();
    if (index.scalar_type() == at::kInt) {
      Scatter(values, index.data_ptr<int32_t>(), index.numel(), to);
    } else {
      Scatter(values, index.data_ptr<int64_t>(), index.numel(), to);
    }
  });
}

}  // namespace heddle
