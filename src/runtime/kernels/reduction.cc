// Ops that reduce or scan dimensions, and losses, which are reductions of what they compare. Over
// split dimensions each rank returns its term of the sum (divided by the global count, for a mean)
// or maximum.
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/kernels/fused.h"
#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

std::vector<int64_t> Axes(const KernelCall& call) {
  std::vector<int64_t> axes = IntsAttr(call.attributes, "axes");
  for (int64_t& axis : axes) axis = FromFirst(axis, Operand(call).dim());
  return axes;
}

bool KeepDims(const KernelCall& call) { return IntAttr(call.attributes, "keepdims", 1) != 0; }

Tensors ReduceSum(const KernelCall& call) {
  const at::Tensor& x = Operand(call);
  const std::vector<int64_t> axes = Axes(call);
  if (axes.empty()) return {x};  // libtorch would reduce all
  return {at::sum(x, axes, KeepDims(call), x.scalar_type())};
}

// Terms that sum to the mean.
Tensors ReduceMean(const KernelCall& call) {
  const at::Tensor& x = Operand(call);
  const std::vector<int64_t> axes = Axes(call);
  if (axes.empty()) return {x};
  const Shape shape = GlobalShape(call.rule, call.rule.operands[0]);
  int64_t count = 1, local_count = 1;
  for (int64_t axis : axes) {
    count *= shape[static_cast<size_t>(axis)];
    local_count *= x.size(axis);
  }
  if (!x.is_floating_point()) {
    return {
        at::div(at::sum(x, axes, KeepDims(call), at::kLong), count, "trunc").to(x.scalar_type())};
  }
  if (local_count == count) return {at::mean(x, axes, KeepDims(call))};
  const at::ScalarType wide = IsNarrow(x.scalar_type()) ? at::kFloat : x.scalar_type();
  return {(at::sum(x, axes, KeepDims(call), wide) / count).to(x.scalar_type())};
}

// The value an empty block contributes to a maximum: below every other.
at::Scalar Lowest(at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return -std::numeric_limits<double>::infinity();
  switch (dtype) {
    case at::kLong:
      return std::numeric_limits<int64_t>::min();
    case at::kInt:
      return std::numeric_limits<int32_t>::min();
    case at::kShort:
      return std::numeric_limits<int16_t>::min();
    case at::kChar:
      return std::numeric_limits<int8_t>::min();
    default:
      return 0;
  }
}

at::Scalar Highest(at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return std::numeric_limits<double>::infinity();
  switch (dtype) {
    case at::kLong:
      return std::numeric_limits<int64_t>::max();
    case at::kInt:
      return std::numeric_limits<int32_t>::max();
    case at::kShort:
      return std::numeric_limits<int16_t>::max();
    case at::kChar:
      return std::numeric_limits<int8_t>::max();
    case at::kByte:
      return std::numeric_limits<uint8_t>::max();
    default:
      return 1;
  }
}

Tensors Extremum(const KernelCall& call, bool largest) {
  const bool detached = IntAttr(call.attributes, "detached", 0) != 0;
  const at::Tensor x = detached ? Operand(call).detach() : Operand(call);
  const std::vector<int64_t> axes = Axes(call);
  if (axes.empty()) return {x};
  if (x.numel() == 0) {
    const at::Scalar value = largest ? Lowest(x.scalar_type()) : Highest(x.scalar_type());
    const at::Tensor none = at::full(call.LocalResultShape(), value, x.options());
    return {detached ? none : Connect(none, call.operands)};
  }
  return {largest ? at::amax(x, axes, KeepDims(call)) : at::amin(x, axes, KeepDims(call))};
}

Tensors ReduceMax(const KernelCall& call) { return Extremum(call, true); }
Tensors ReduceMin(const KernelCall& call) { return Extremum(call, false); }

Tensors ReduceProd(const KernelCall& call) {
  at::Tensor x = Operand(call);
  std::vector<int64_t> axes = Axes(call);
  std::ranges::sort(axes,
                    std::greater<>());  // the last first, so that the others stay where they are
  for (int64_t axis : axes) x = at::prod(x, axis, KeepDims(call), x.scalar_type());
  return {x};
}

Tensors ArgMax(const KernelCall& call) {
  return {at::argmax(Operand(call), Axis(call), KeepDims(call))};
}

Tensors ArgMin(const KernelCall& call) {
  return {at::argmin(Operand(call), Axis(call), KeepDims(call))};
}

Tensors TopK(const KernelCall& call) {
  auto [values, indices] = at::topk(Operand(call), IntAttr(call.attributes, "k"), Axis(call, -1),
                                    IntAttr(call.attributes, "largest", 1) != 0,
                                    IntAttr(call.attributes, "sorted", 1) != 0);
  return {values, indices};
}

Tensors CumSum(const KernelCall& call) {
  const int64_t axis = Axis(call);
  const bool reverse = IntAttr(call.attributes, "reverse", 0) != 0;
  at::Tensor x = Operand(call);
  if (reverse) x = at::flip(x, {axis});
  if (IntAttr(call.attributes, "exclusive", 0) != 0 && x.size(axis) > 0) {
    const at::Tensor zero = at::zeros_like(x.narrow(axis, 0, 1));
    x = at::cat({zero, x.narrow(axis, 0, x.size(axis) - 1)}, axis);
  }
  x = at::cumsum(x, axis, x.scalar_type());
  return {reverse ? at::flip(x, {axis}) : x};
}

constexpr int64_t kDefaultIgnored = -100;

// Losses reduced as the op says: `how` gives them apart or summed; a mean is the sum over this rank's labels divided
// by the count of all.
at::Tensor Reduced(const KernelCall& call,
                   const std::function<at::Tensor(at::Reduction::Reduction)>& how) {
  const std::string reduction = StringAttr(call.attributes, "reduction", "mean");
  const at::ScalarType dtype = ToTorch(call.rule.result_dtypes[0]);
  if (reduction == "none") return how(at::Reduction::None).to(dtype);
  const at::Tensor sum = how(at::Reduction::Sum);
  if (reduction == "sum") return sum.to(dtype);
  return (sum / Operand(call, 2).reshape({})).to(dtype);
}

// -logp[label] of labels that are not `ignored`.
at::Tensor Nll(const KernelCall& call, const at::Tensor& logp, const at::Tensor& labels,
               int64_t ignored) {
  return Reduced(call, [&](at::Reduction::Reduction how) {
    return at::nll_loss_nd(logp, labels, {}, how, ignored);
  });
}

Tensors CrossEntropy(const KernelCall& call) {
  if (Operand(call, 0).numel() == 0) return {EmptyResult(call)};
  const at::Tensor& logits = Operand(call, 0);
  const at::Tensor labels = Operand(call, 1).to(at::kLong);
  const int64_t ignored = IntAttr(call.attributes, "ignore_index", kDefaultIgnored);
  if (std::optional<at::Tensor> rows = FusedRowLosses(logits, labels, ignored)) {
    return {Reduced(call, [&](at::Reduction::Reduction how) {
      return how == at::Reduction::None ? *rows : rows->sum();
    })};
  }
  const at::ScalarType wide = IsNarrow(logits.scalar_type()) ? at::kFloat : logits.scalar_type();
  return {Nll(call, at::log_softmax(logits, 1, wide), labels, ignored)};
}

// Labels of classes held elsewhere are ignored here.
Tensors NllLoss(const KernelCall& call) {
  if (Operand(call, 0).numel() == 0) return {EmptyResult(call)};
  const Block classes = BlockOf(call, call.rule.operands[0], 1);
  const int64_t ignored = IntAttr(call.attributes, "ignore_index", kDefaultIgnored);
  const at::Tensor& logp = Operand(call, 0);
  const at::Tensor wide = IsNarrow(logp.scalar_type()) ? logp.to(at::kFloat) : logp;
  const at::Tensor labels = Operand(call, 1).to(at::kLong);
  if (classes.size() == GlobalSizeOf(call, call.rule.operands[0], 1)) {
    return {Nll(call, wide, labels, ignored)};
  }
  const at::Tensor elsewhere = at::logical_or(
      labels == ignored, at::logical_or(labels < classes.begin, labels >= classes.end));
  const at::Tensor local = (labels - classes.begin).masked_fill(elsewhere, kDefaultIgnored);
  return {Nll(call, wide, local, kDefaultIgnored)};
}

Tensors LabelCount(const KernelCall& call) {
  const int64_t ignored = IntAttr(call.attributes, "ignore_index", kDefaultIgnored);
  return {(Operand(call) != ignored).sum().to(at::kFloat)};
}

}  // namespace

std::vector<KernelDef> ReductionKernels() {
  return {
      {"ReduceSum", ReduceSum},   {"ReduceMean", ReduceMean},
      {"ReduceMax", ReduceMax},   {"ReduceMin", ReduceMin},
      {"ReduceProd", ReduceProd}, {"ArgMax", ArgMax},
      {"ArgMin", ArgMin},         {"TopK", TopK},
      {"CumSum", CumSum},         {"CrossEntropy", CrossEntropy},
      {"NllLoss", NllLoss},       {"LabelCount", LabelCount},
  };
}

}  // namespace heddle
