// Ops that work element by element. Local shards broadcast against each other as the whole tensors
// do: a dimension of size 1 is never split.
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

using UnaryFn = at::Tensor (*)(const at::Tensor&);
using BinaryFn = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

template <UnaryFn kFn>
Tensors Unary(const KernelCall& call) {
  return {kFn(Operand(call))};
}

template <BinaryFn kFn>
Tensors Binary(const KernelCall& call) {
  return {kFn(Operand(call, 0), Operand(call, 1))};
}

at::Tensor Identity(const at::Tensor& x) { return x; }
at::Tensor Softsign(const at::Tensor& x) { return x / (x.abs() + 1); }
at::Tensor Softplus(const at::Tensor& x) { return at::softplus(x); }
at::Tensor Add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
at::Tensor Sub(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }
at::Tensor PRelu(const at::Tensor& x, const at::Tensor& slope) {
  return at::where(x > 0, x, slope * x);
}

// Integers are divided as C divides them.
at::Tensor Div(const at::Tensor& a, const at::Tensor& b) {
  return a.is_floating_point() ? at::div(a, b) : at::div(a, b, "trunc");
}

at::Tensor Pow(const at::Tensor& a, const at::Tensor& b) {
  // A constant exponent in host memory: libtorch has shortcuts for squares and roots.
  const bool constant =
      b.numel() == 1 && b.dim() <= a.dim() && b.device().is_cpu() && !b.requires_grad();
  const at::Tensor power = constant ? at::pow(a, b.item()) : at::pow(a, b);
  return power.to(a.scalar_type());
}

double Attr(const KernelCall& call, std::string_view name, double fallback) {
  return FloatAttr(call.attributes, name, fallback);
}

Tensors Gelu(const KernelCall& call) {
  return {at::gelu(Operand(call), StringAttr(call.attributes, "approximate", "none"))};
}

Tensors LeakyRelu(const KernelCall& call) {
  return {at::leaky_relu(Operand(call), Attr(call, "alpha", 0.01))};
}

Tensors Elu(const KernelCall& call) { return {at::elu(Operand(call), Attr(call, "alpha", 1))}; }

Tensors Celu(const KernelCall& call) { return {at::celu(Operand(call), Attr(call, "alpha", 1))}; }

Tensors ThresholdedRelu(const KernelCall& call) {
  return {at::threshold(Operand(call), Attr(call, "alpha", 1), 0)};
}

Tensors HardSigmoid(const KernelCall& call) {
  const at::Tensor line = Operand(call) * Attr(call, "alpha", 0.2) + Attr(call, "beta", 0.5);
  return {at::clamp(line, 0, 1)};
}

// A bound of Clip in the type of what it bounds: a float bound would turn integers into floats.
at::Scalar Bound(double value, const at::Tensor& x) {
  if (x.is_floating_point()) return value;
  constexpr double kLimit = 9223372036854775807.0;
  if (value >= kLimit) return std::numeric_limits<int64_t>::max();
  if (value <= -kLimit) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

Tensors Clip(const KernelCall& call) {
  at::Tensor x = Operand(call);
  if (call.attributes.contains("min")) {
    x = at::clamp_min(x, Bound(FloatAttr(call.attributes, "min"), x));
  }
  if (call.attributes.contains("max")) {
    x = at::clamp_max(x, Bound(FloatAttr(call.attributes, "max"), x));
  }
  return {x};
}

Tensors Cast(const KernelCall& call) {
  return {Operand(call).to(ToTorch(call.rule.result_dtypes[0]))};
}

Tensors Mod(const KernelCall& call) {
  const bool like_c = IntAttr(call.attributes, "fmod", 0) != 0;
  return {like_c ? at::fmod(Operand(call, 0), Operand(call, 1))
                 : at::remainder(Operand(call, 0), Operand(call, 1))};
}

Tensors Where(const KernelCall& call) {
  return {at::where(Operand(call, 0).to(at::kBool), Operand(call, 1), Operand(call, 2))};
}

}  // namespace

std::vector<KernelDef> ElementwiseKernels() {
  return {
      {"Neg", Unary<at::neg>},
      {"Abs", Unary<at::abs>},
      {"Exp", Unary<at::exp>},
      {"Log", Unary<at::log>},
      {"Sqrt", Unary<at::sqrt>},
      {"Reciprocal", Unary<at::reciprocal>},
      {"Sin", Unary<at::sin>},
      {"Cos", Unary<at::cos>},
      {"Tan", Unary<at::tan>},
      {"Asin", Unary<at::asin>},
      {"Acos", Unary<at::acos>},
      {"Atan", Unary<at::atan>},
      {"Sinh", Unary<at::sinh>},
      {"Cosh", Unary<at::cosh>},
      {"Asinh", Unary<at::asinh>},
      {"Acosh", Unary<at::acosh>},
      {"Atanh", Unary<at::atanh>},
      {"Tanh", Unary<at::tanh>},
      {"Sigmoid", Unary<at::sigmoid>},
      {"Erf", Unary<at::erf>},
      {"Relu", Unary<at::relu>},
      {"Silu", Unary<at::silu>},
      {"Softplus", Unary<Softplus>},
      {"Softsign", Unary<Softsign>},
      {"Mish", Unary<at::mish>},
      {"HardSwish", Unary<at::hardswish>},
      {"Selu", Unary<at::selu>},
      {"Floor", Unary<at::floor>},
      {"Ceil", Unary<at::ceil>},
      {"Round", Unary<at::round>},
      {"Sign", Unary<at::sign>},
      {"Not", Unary<at::logical_not>},
      {"IsNaN", Unary<at::isnan>},
      {"IsInf", Unary<at::isinf>},
      {"BitwiseNot", Unary<at::bitwise_not>},
      {"Identity", Unary<Identity>},
      {"Gelu", Gelu},
      {"LeakyRelu", LeakyRelu},
      {"Elu", Elu},
      {"Celu", Celu},
      {"ThresholdedRelu", ThresholdedRelu},
      {"HardSigmoid", HardSigmoid},
      {"Clip", Clip},
      {"Cast", Cast},
      {"Add", Binary<Add>},
      {"Sub", Binary<Sub>},
      {"Mul", Binary<at::mul>},
      {"Div", Binary<Div>},
      {"Pow", Binary<Pow>},
      {"Mod", Mod},
      {"Maximum", Binary<at::maximum>},
      {"Minimum", Binary<at::minimum>},
      {"Equal", Binary<at::eq>},
      {"Less", Binary<at::lt>},
      {"LessOrEqual", Binary<at::le>},
      {"Greater", Binary<at::gt>},
      {"GreaterOrEqual", Binary<at::ge>},
      {"And", Binary<at::logical_and>},
      {"Or", Binary<at::logical_or>},
      {"Xor", Binary<at::logical_xor>},
      {"PRelu", Binary<PRelu>},
      {"BitwiseAnd", Binary<at::bitwise_and>},
      {"BitwiseOr", Binary<at::bitwise_or>},
      {"BitwiseXor", Binary<at::bitwise_xor>},
      {"Where", Where},
  };
}

}  // namespace heddle
