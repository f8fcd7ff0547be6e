// Gradients of weights from factors. Replicas compute the same gradient, each for itself, and never compare: kernels
// here must give the same bits every time (so no scattered additions, which CUDA does in any order).
#include <ATen/ExpandUtils.h>

#include <string>

#include "runtime/kernels/factor_kernels.h"
#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

Shape FactorShape(const KernelCall& call, size_t operand) {
  return LocalShape(call.rule, call.rule.operands[operand], call.blocks);
}

// Rows of the last dimension.
at::Tensor RowsOfLast(const at::Tensor& t) {
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < t.dim(); ++d) rows *= t.size(d);
  return t.reshape({rows, t.size(-1)});
}

at::Tensor LinearWeightGradient(const KernelCall& call, const at::Tensor& gradient) {
  const at::Tensor x = RowsOfLast(Operand(call)), dy = RowsOfLast(gradient);
  const bool rows_are_outputs = IntAttr(call.attributes, "transpose_weight", 0) != 0;
  return rows_are_outputs ? dy.t().mm(x) : x.t().mm(dy);
}

at::Tensor LinearBiasGradient(const KernelCall&, const at::Tensor& gradient) {
  return RowsOfLast(gradient).sum(0);
}

// [b*,i,k] x [b*,k,j]: a weight without the dimensions b* sums over them.
at::Tensor MatMulRightGradient(const KernelCall& call, const at::Tensor& gradient) {
  const Shape shape = FactorShape(call, 1);
  if (shape.size() == 2 && Operand(call).dim() >= 2)
    return RowsOfLast(Operand(call)).t().mm(RowsOfLast(gradient));
  return at::sum_to(at::matmul(Operand(call).transpose(-2, -1), gradient), shape);
}

at::Tensor MatMulLeftGradient(const KernelCall& call, const at::Tensor& gradient) {
  return at::sum_to(at::matmul(gradient, Operand(call).transpose(-2, -1)), FactorShape(call, 0));
}

// "A,B->C": the gradient of A is "B,C->A", that of B "A,C->B".
template <size_t operand>
at::Tensor EinsumTermGradient(const KernelCall& call, const at::Tensor& gradient) {
  const std::string equation = StringAttr(call.attributes, "equation");
  const size_t comma = equation.find(','), arrow = equation.find("->");
  const std::string first = equation.substr(0, comma);
  const std::string second = equation.substr(comma + 1, arrow - comma - 1);
  const std::string result = equation.substr(arrow + 2);
  return at::einsum(
      (operand == 0 ? second : first) + "," + result + "->" + (operand == 0 ? first : second),
      {Operand(call), gradient});
}

at::Tensor ChannelGradient(const KernelCall&, const at::Tensor& gradient) {
  return gradient.transpose(0, 1).flatten(1).sum(1);
}

template <size_t operand>
at::Tensor TermGradient(const KernelCall& call, const at::Tensor& gradient) {
  return at::sum_to(gradient, FactorShape(call, operand));
}

// Rows of the gradient added up at their indices; those of rows held elsewhere count as nothing.
at::Tensor TableGradient(const KernelCall& call, const at::Tensor& gradient) {
  const Dims& table = call.rule.operands[0];
  const Shape shape = FactorShape(call, 0);
  const int64_t axis =
      FromFirst(IntAttr(call.attributes, "axis", 0), static_cast<int64_t>(table.size()));
  const Block block = BlockOf(call, table, axis);
  const at::Tensor index =
      FromBeginning(Operand(call), GlobalSizeOf(call, table, axis)).flatten() - block.begin;
  // [a*,i*,z*] -> [i,(a* z*)]
  Shape sizes(gradient.sizes().begin(), gradient.sizes().begin() + axis);
  sizes.push_back(index.numel());
  const int64_t indexed = Operand(call).dim();
  sizes.insert(sizes.end(), gradient.sizes().begin() + axis + indexed, gradient.sizes().end());
  const at::Tensor rows = gradient.reshape(sizes).movedim(axis, 0);
  const at::Tensor outside = at::logical_or(index < 0, index >= block.size());
  int64_t width = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int64_t>(d) != axis) width *= shape[d];
  }
  const at::Tensor flat = rows.reshape({index.numel(), width}).masked_fill(outside.unsqueeze(1), 0);
  const at::Tensor sums =
      at::embedding_dense_backward(flat, index.clamp(0, block.size() - 1), block.size(), -1, false);
  Shape moved = rows.sizes().vec();
  moved[0] = block.size();
  return sums.reshape(moved).movedim(0, axis);
}

struct FactorKernelDef {
  std::string_view op;
  size_t operand;
  FactorKernelFn run;
};

constexpr FactorKernelDef kFactorKernels[] = {
    {"Linear", 1, LinearWeightGradient},  {"Linear", 2, LinearBiasGradient},
    {"MatMul", 0, MatMulLeftGradient},    {"MatMul", 1, MatMulRightGradient},
    {"Einsum", 0, EinsumTermGradient<0>}, {"Einsum", 1, EinsumTermGradient<1>},
    {"Conv", 1, ConvWeightGradient},      {"Conv", 2, ChannelGradient},
    {"Gather", 0, TableGradient},         {"Add", 0, TermGradient<0>},
    {"Add", 1, TermGradient<1>},
};

}  // namespace

FactorKernelFn FindFactorKernel(std::string_view op, size_t operand) {
  for (const FactorKernelDef& at : kFactorKernels) {
    if (at.op == op && at.operand == operand) return at.run;
  }
  return nullptr;
}

}  // namespace heddle
