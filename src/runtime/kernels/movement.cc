// Ops that move elements without computing with them. A concatenated dimension is cut and joined at
// the local sizes of its pieces.
#include <string>
#include <vector>

#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

Tensors Reshape(const KernelCall& call) { return {Operand(call).reshape(call.LocalResultShape())}; }

Tensors Transpose(const KernelCall& call) {
  return {Operand(call).permute(IntsAttr(call.attributes, "perm"))};
}

Tensors Expand(const KernelCall& call) { return {Operand(call).expand(call.LocalResultShape())}; }

Tensors Concat(const KernelCall& call) {
  return {at::cat(at::TensorList(call.operands.data(), call.operands.size()), Axis(call))};
}

Tensors Split(const KernelCall& call) {
  const int64_t axis = Axis(call);
  std::vector<int64_t> sizes;
  for (size_t r = 0; r < call.rule.results.size(); ++r) {
    sizes.push_back(call.LocalResultShape(r)[static_cast<size_t>(axis)]);
  }
  return at::split_with_sizes(Operand(call), sizes, axis);
}

// Every `step`-th position of a whole dimension, from `start` until (not with) `end`.
at::Tensor SliceWhole(const at::Tensor& x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  if (step > 0) return at::slice(x, axis, start, end, step);
  const int64_t last = x.size(axis) - 1;
  return at::slice(at::flip(x, {axis}), axis, last - start, last - end, -step);
}

Tensors Slice(const KernelCall& call) {
  const std::vector<int64_t> starts = IntsAttr(call.attributes, "starts");
  const std::vector<int64_t> ends = IntsAttr(call.attributes, "ends");
  const std::vector<int64_t> axes = IntsAttr(call.attributes, "axes");
  const std::vector<int64_t> steps =
      IntsAttr(call.attributes, "steps", std::vector<int64_t>(starts.size(), 1));
  const Shape local = call.LocalResultShape();
  at::Tensor x = Operand(call);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = FromFirst(axes[i], x.dim());
    const int64_t size = local[static_cast<size_t>(axis)];
    const std::vector<int64_t> pieces = LocalTermSizes(call, call.rule.operands[0], axis);
    if (size == 0) {
      x = x.narrow(axis, 0, 0);
    } else if (steps[i] != 1) {
      x = SliceWhole(x, axis, starts[i], ends[i], steps[i]);
    } else if (pieces.size() == 1) {  // all of it, or a dimension that is never split
      x = x.narrow(axis, x.size(axis) == size ? 0 : starts[i], size);
    } else {  // (before|kept|after), without what is empty on one device
      x = x.narrow(axis, starts[i] == 0 ? 0 : pieces[0], size);
    }
  }
  return {x};
}

// Position t of a padded dimension, counted from the operand's first, as a position of the operand.
at::Tensor SourceOfPadding(const at::Tensor& t, int64_t n, const std::string& mode) {
  if (mode == "edge" || n == 1) return t.clamp(0, n - 1);
  const int64_t period = 2 * (n - 1);
  const at::Tensor phase = at::remainder(t, period);
  return at::minimum(phase, period - phase);
}

Tensors Pad(const KernelCall& call) {
  at::Tensor x = Operand(call);
  const std::vector<int64_t> pads = IntsAttr(call.attributes, "pads");
  const std::string mode = StringAttr(call.attributes, "mode", "constant");
  const auto rank = static_cast<size_t>(x.dim());
  if (mode == "constant") {
    const double value = FloatAttr(call.attributes, "value", 0.0);
    if (x.numel() == 0) {  // which libtorch refuses
      return {Connect(at::full(call.LocalResultShape(), value, x.options()), call.operands)};
    }
    std::vector<int64_t> amounts;  // last dimension first
    for (size_t d = rank; d-- > 0;) {
      amounts.push_back(pads[d]);
      amounts.push_back(pads[d + rank]);
    }
    return {at::constant_pad_nd(x, amounts, value)};
  }
  for (size_t d = 0; d < rank; ++d) {
    if (pads[d] == 0 && pads[d + rank] == 0) continue;
    const auto axis = static_cast<int64_t>(d);
    const int64_t n = x.size(axis);
    const at::Tensor t = at::arange(-pads[d], n + pads[d + rank], x.options().dtype(at::kLong));
    x = x.index_select(axis, SourceOfPadding(t, n, mode));
  }
  return {x};
}

// The repetitions of a dimension are its outer factor, of which this rank has its block.
Tensors TileOp(const KernelCall& call) {
  const at::Tensor& x = Operand(call);
  std::vector<int64_t> repeats = IntsAttr(call.attributes, "repeats");
  const Shape local = call.LocalResultShape();
  for (size_t d = 0; d < repeats.size(); ++d) {
    const int64_t size = x.size(static_cast<int64_t>(d));
    if (size != 0) repeats[d] = local[d] / size;
  }
  return {x.repeat(repeats)};
}

// Position (r,c) of a shard that begins at (row,column) is kept where (c+column) - (r+row) is.
Tensors Trilu(const KernelCall& call) {
  const at::Tensor& x = Operand(call);
  const Dims& dims = call.rule.operands[0];
  const int64_t row = BlockOf(call, dims, x.dim() - 2).begin;
  const int64_t column = BlockOf(call, dims, x.dim() - 1).begin;
  const int64_t diagonal = IntAttr(call.attributes, "k", 0) + row - column;
  const bool upper = IntAttr(call.attributes, "upper", 1) != 0;
  return {upper ? at::triu(x, diagonal) : at::tril(x, diagonal)};
}

}  // namespace

std::vector<KernelDef> MovementKernels() {
  return {
      {"Reshape", Reshape}, {"Transpose", Transpose}, {"Expand", Expand},
      {"Concat", Concat},   {"Split", Split},         {"Slice", Slice},
      {"Pad", Pad},         {"Tile", TileOp},         {"Trilu", Trilu},
  };
}

}  // namespace heddle
