// Ops that read or write where an operand of indices says. Indices are global and may be negative
// (counted from the end). Where the indexed dimension is split, positions held elsewhere read as
// zero, so that the ranks' results sum to the whole one.
#include <algorithm>
#include <vector>

#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

// Global indices as positions in the local block: clamped into it, and true where they lie outside.
struct LocalIndex {
  at::Tensor position;
  at::Tensor outside;
};

LocalIndex Localise(const at::Tensor& index, const Block& block) {
  const at::Tensor shifted = index - block.begin;
  return {shifted.clamp(0, block.size() - 1), at::logical_or(shifted < 0, shifted >= block.size())};
}

at::Tensor SelectRows(const at::Tensor& data, int64_t axis, const at::Tensor& index,
                      const Shape& result) {
  if (data.dim() == 2 && axis == 0) return at::embedding(data, index);
  return data.index_select(axis, index.flatten()).reshape(result);
}

Tensors Gather(const KernelCall& call) {
  const at::Tensor& data = Operand(call, 0);
  const int64_t axis = Axis(call, 0);
  const int64_t n = GlobalSizeOf(call, call.rule.operands[0], axis);
  const Block block = BlockOf(call, call.rule.operands[0], axis);
  const at::Tensor index = FromBeginning(Operand(call, 1), n);
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  if (block.size() == n) return {SelectRows(data, axis, index, call.LocalResultShape())};

  const LocalIndex local = Localise(index, block);
  const at::Tensor rows = SelectRows(data, axis, local.position, call.LocalResultShape());
  std::vector<int64_t> sizes(static_cast<size_t>(axis), 1);
  sizes.insert(sizes.end(), index.sizes().begin(), index.sizes().end());
  sizes.resize(static_cast<size_t>(rows.dim()), 1);
  return {rows.masked_fill(local.outside.reshape(sizes), 0)};
}

Tensors GatherElements(const KernelCall& call) {
  const at::Tensor& data = Operand(call, 0);
  const int64_t axis = Axis(call, 0);
  const int64_t n = GlobalSizeOf(call, call.rule.operands[0], axis);
  const Block block = BlockOf(call, call.rule.operands[0], axis);
  const at::Tensor index = FromBeginning(Operand(call, 1), n);
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  if (block.size() == n) return {at::gather(data, axis, index)};
  const LocalIndex local = Localise(index, block);
  return {at::gather(data, axis, local.position).masked_fill(local.outside, 0)};
}

// Rows of indices [..., m] into dimensions first..first+m of `data` as positions in those
// dimensions flattened.
at::Tensor FlatIndex(const at::Tensor& index, const at::Tensor& data, int64_t first) {
  const int64_t depth = index.size(-1);
  at::Tensor flat = at::zeros(index.sizes().slice(0, static_cast<size_t>(index.dim() - 1)),
                              index.options().dtype(at::kLong));
  for (int64_t t = 0; t < depth; ++t) {
    const int64_t n = data.size(first + t);
    const at::Tensor at = FromBeginning(index.select(-1, t), n);
    // Flattened, an index past one dimension would silently reach into the next row.
    if (at.is_cpu()) {
      TORCH_CHECK_INDEX(((at >= 0).logical_and(at < n)).all().item<bool>(),
                        "an index is outside a dimension of ", n);
    }
    flat = flat * n + at;
  }
  return flat;
}

int64_t SizeOfDims(const at::Tensor& t, int64_t first, int64_t last) {
  int64_t size = 1;
  for (int64_t d = first; d < last; ++d) size *= t.size(d);
  return size;
}

Tensors GatherND(const KernelCall& call) {
  const Shape result = call.LocalResultShape();
  if (std::ranges::find(result, 0) != result.end()) return {EmptyResult(call)};
  const at::Tensor &data = Operand(call, 0), &index = Operand(call, 1);
  const int64_t batch_dims = IntAttr(call.attributes, "batch_dims", 0);
  const int64_t after = batch_dims + index.size(-1);
  const int64_t batches = SizeOfDims(data, 0, batch_dims);
  const int64_t positions = SizeOfDims(data, batch_dims, after);
  at::Tensor flat = FlatIndex(index, data, batch_dims).reshape({batches, -1});
  flat = flat + at::arange(batches, flat.options()).unsqueeze(1) * positions;
  const at::Tensor rows = data.reshape({batches * positions, SizeOfDims(data, after, data.dim())});
  return {rows.index_select(0, flat.flatten()).reshape(result)};
}

Tensors ScatterND(const KernelCall& call) {
  const at::Tensor &data = Operand(call, 0), &index = Operand(call, 1);
  if (data.numel() == 0 || Operand(call, 2).numel() == 0) return {Connect(data, call.operands)};
  const int64_t depth = index.size(-1);
  const int64_t row = SizeOfDims(data, depth, data.dim());
  const at::Tensor rows = data.reshape({SizeOfDims(data, 0, depth), row});
  const at::Tensor flat = FlatIndex(index, data, 0).flatten();
  const at::Tensor updates = Operand(call, 2).to(data.scalar_type()).reshape({-1, row});
  const bool add = StringAttr(call.attributes, "reduction", "none") == "add";
  const at::Tensor written =
      add ? rows.index_add(0, flat, updates) : rows.index_copy(0, flat, updates);
  return {written.reshape(data.sizes())};
}

Tensors ScatterElements(const KernelCall& call) {
  const at::Tensor& data = Operand(call, 0);
  if (AnyEmpty(call.operands)) return {Connect(data, call.operands)};
  const int64_t axis = Axis(call, 0);
  const at::Tensor index = FromBeginning(Operand(call, 1), data.size(axis));
  const at::Tensor updates = Operand(call, 2).to(data.scalar_type());
  const bool add = StringAttr(call.attributes, "reduction", "none") == "add";
  return {add ? at::scatter_add(data, axis, index, updates)
              : at::scatter(data, axis, index, updates)};
}

// The depth is a dimension of the result alone, of which this rank makes its block.
Tensors OneHot(const KernelCall& call) {
  const int64_t axis = FromFirst(IntAttr(call.attributes, "axis", -1), Operand(call).dim() + 1);
  const Block block = BlockOf(call, call.rule.results[0], axis);
  const at::Tensor index =
      FromBeginning(Operand(call), IntAttr(call.attributes, "depth")).unsqueeze(axis);
  std::vector<int64_t> sizes(static_cast<size_t>(index.dim()), 1);
  sizes[static_cast<size_t>(axis)] = block.size();
  const at::Tensor depth = at::arange(block.begin, block.end, index.options()).reshape(sizes);
  const double on = FloatAttr(call.attributes, "on", 1.0),
               off = FloatAttr(call.attributes, "off", 0.0);
  const at::TensorOptions options = index.options().dtype(ToTorch(call.rule.result_dtypes[0]));
  return {at::where(index == depth, at::full({}, on, options), at::full({}, off, options))};
}

}  // namespace

std::vector<KernelDef> IndexingKernels() {
  return {
      {"Gather", Gather},       {"GatherElements", GatherElements},   {"GatherND", GatherND},
      {"ScatterND", ScatterND}, {"ScatterElements", ScatterElements}, {"OneHot", OneHot},
  };
}

}  // namespace heddle
