#include "runtime/packing.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <optional>

#include "runtime/kernel_threads.h"
#include "runtime/kernels/fused.h"
#include "runtime/tiles.h"

namespace heddle {
namespace {

constexpr int64_t kKeptPiece = 1 << 15;  // kept weights per piece of work of a thread

// Calls body(i) for every kept weight, in several threads where there are many.
template <typename Body>
void Each(int64_t count, const Body& body) {
  ForEachInThreads((count + kKeptPiece - 1) / kKeptPiece, [&](int64_t piece) {
    int64_t end = std::min(count, (piece + 1) * kKeptPiece);
    for (int64_t i = piece * kKeptPiece; i < end; ++i) body(i);
  });
}

template <typename Visit>
void WithIndex(const at::Tensor& index, const Visit& visit) {
  if (index.scalar_type() == at::kInt) {
    visit(index.data_ptr<int32_t>());
  } else {
    visit(index.data_ptr<int64_t>());
  }
}

}  // namespace

at::Tensor IndexOf(const Mask& mask, const std::string& parameter, const Shape& shape,
                   const Tile& tile) {
  std::span<const std::byte> bytes = mask.Of(parameter);
  // The mask is only read.
  at::Tensor whole = at::from_blob(const_cast<std::byte*>(bytes.data()), shape, at::kBool);
  at::Tensor held = TakeTile(whole, tile).reshape({-1});
  at::Tensor index = held.nonzero().reshape({-1});
  return held.numel() > INT32_MAX ? index : index.to(at::kInt);
}

at::Tensor Compress(const at::Tensor& dense, const at::Tensor& index) {
  at::Tensor flat = dense.reshape({-1});
  if (!flat.is_cpu()) {
    if (std::optional<at::Tensor> kept = FusedCompress(flat, index)) return *kept;
  }
  return flat.index_select(0, index);
}

void ExpandInto(const at::Tensor& kept, const at::Tensor& index, const at::Tensor& dense) {
  at::Tensor from = kept.contiguous();
  if (!dense.is_cpu()) {
    if (!FusedExpand(from, index, dense))
      dense.index_copy_(0, index.to(at::kLong), from.to(dense.scalar_type()));
    return;
  }
  // index_copy_ takes int64 indices only: a converted copy of the index would take more memory than the values.
  from = from.to(dense.scalar_type());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, dense.scalar_type(), "expand", [&] {
    const scalar_t* values = from.data_ptr<scalar_t>();
    scalar_t* to = dense.data_ptr<scalar_t>();
    WithIndex(index, [&](const auto* at) {
      Each(index.numel(), [&](int64_t i) { to[at[i]] = values[i]; });
    });
  });
}

}  // namespace heddle
