// Normalisations and softmax. What they normalise over is whole, but for the groups of a GroupNorm
// and the channels of a BatchNorm, which are normalised apart and may be split.
#include <numeric>
#include <vector>

#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

double Epsilon(const KernelCall& call) { return FloatAttr(call.attributes, "epsilon", 1e-5); }

Tensors LayerNorm(const KernelCall& call) {
  const at::Tensor& x = Operand(call, 0);
  const at::IntArrayRef normalised = x.sizes().slice(static_cast<size_t>(Axis(call, -1)));
  const at::Tensor bias = OptionalOperand(call, 2);
  return {at::layer_norm(x, normalised, Operand(call, 1).expand(normalised),
                         bias.defined() ? bias.expand(normalised) : bias, Epsilon(call))};
}

Tensors RMSNorm(const KernelCall& call) {
  const at::Tensor& x = Operand(call, 0);
  const at::Tensor scale = OptionalOperand(call, 1);
  std::vector<int64_t> axes(static_cast<size_t>(x.dim() - Axis(call, -1)));
  std::iota(axes.begin(), axes.end(), Axis(call, -1));
  const at::Tensor wide = IsNarrow(x.scalar_type()) ? x.to(at::kFloat) : x;
  const at::Tensor inverse = at::rsqrt(at::mean(wide * wide, axes, true) + Epsilon(call));
  const at::Tensor y = (wide * inverse).to(x.scalar_type());
  return {scale.defined() ? y * scale : y};
}

// [c] as [1,c,1...], to meet a tensor of that rank.
at::Tensor PerChannel(const at::Tensor& t, int64_t rank) {
  std::vector<int64_t> sizes(static_cast<size_t>(rank), 1);
  sizes[1] = t.size(0);
  return t.reshape(sizes);
}

Tensors BatchNorm(const KernelCall& call) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  return {at::batch_norm(Operand(call, 0), Operand(call, 1), Operand(call, 2), {}, {}, true, 0.0,
                         Epsilon(call), true)};
}

// As one multiplication and addition, through which the statistics have gradients too.
Tensors BatchNormInference(const KernelCall& call) {
  const at::Tensor& x = Operand(call, 0);
  const at::Tensor factor = Operand(call, 1) * at::rsqrt(Operand(call, 4) + Epsilon(call));
  const at::Tensor offset = Operand(call, 2) - Operand(call, 3) * factor;
  return {at::addcmul(PerChannel(offset, x.dim()), x, PerChannel(factor, x.dim()))};
}

Tensors NormaliseGroups(const KernelCall& call, int64_t groups) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  return {
      at::group_norm(Operand(call, 0), groups, Operand(call, 1), Operand(call, 2), Epsilon(call))};
}

Tensors InstanceNorm(const KernelCall& call) {
  return NormaliseGroups(call, Operand(call, 0).size(1));
}

Tensors GroupNorm(const KernelCall& call) {
  const int64_t groups = IntAttr(call.attributes, "groups");
  return NormaliseGroups(call, groups == 1 ? 1 : LocalSizeOf(call, "g"));
}

Tensors Softmax(const KernelCall& call) { return {at::softmax(Operand(call), Axis(call, -1))}; }

Tensors LogSoftmax(const KernelCall& call) {
  return {at::log_softmax(Operand(call), Axis(call, -1))};
}

}  // namespace

std::vector<KernelDef> NormalisationKernels() {
  return {
      {"LayerNorm", LayerNorm},       {"RMSNorm", RMSNorm},
      {"BatchNorm", BatchNorm},       {"BatchNormInference", BatchNormInference},
      {"InstanceNorm", InstanceNorm}, {"GroupNorm", GroupNorm},
      {"Softmax", Softmax},           {"LogSoftmax", LogSoftmax},
  };
}

}  // namespace heddle
