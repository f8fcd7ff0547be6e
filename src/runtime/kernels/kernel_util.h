// What kernels share: where a local shard lies in the global tensor, and zeros that keep autograd
// whole.
//
// A dimension of a local shard is read through the rule. For the data operand of a Gather whose
// rows v (50257 in all) are split in two, the second rank sees
//
//   FactorAt(call.rule.operands[0], 0)       the index of v among call.rule.factors
//   BlockOf(call, call.rule.operands[0], 0)  {25129, 50257}
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "runtime/kernels/kernel.h"

namespace heddle {

using Tensors = std::vector<at::Tensor>;

// The families, gathered by AllKernels().
std::vector<KernelDef> ElementwiseKernels();
std::vector<KernelDef> ContractionKernels();
std::vector<KernelDef> WindowKernels();
std::vector<KernelDef> NormalisationKernels();
std::vector<KernelDef> MovementKernels();
std::vector<KernelDef> IndexingKernels();
std::vector<KernelDef> ReductionKernels();
std::vector<KernelDef> RandomKernels();

inline const at::Tensor& Operand(const KernelCall& call, size_t index = 0) {
  return call.operands[index];
}

// A trailing operand that may be left out; undefined then.
inline at::Tensor OptionalOperand(const KernelCall& call, size_t index) {
  return index < call.operands.size() ? call.operands[index] : at::Tensor();
}

// An axis counted from either end, as one counted from the first of `rank` dimensions.
inline int64_t FromFirst(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

// The attribute `axis` of a call, which is one of operand 0.
inline int64_t Axis(const KernelCall& call, std::optional<int64_t> fallback = {}) {
  return FromFirst(IntAttr(call.attributes, "axis", fallback), Operand(call).dim());
}

inline int64_t FactorSize(const KernelCall& call, int factor) {
  return call.rule.factors[static_cast<size_t>(factor)].size;
}

inline const Block& FactorBlockOf(const KernelCall& call, int factor) {
  return call.blocks[static_cast<size_t>(factor)];
}

// The one factor a dimension runs over, or -1 for a dimension of size 1. Not for products of
// several factors nor for concatenations.
inline int FactorAt(const Dims& dims, int64_t dim) {
  const std::vector<Product>& terms = dims[static_cast<size_t>(dim)].terms;
  HEDDLE_CHECK(terms.size() == 1 && terms[0].size() <= 1, "dimension {} is not one factor", dim);
  return terms[0].empty() ? -1 : terms[0][0];
}

// The range of positions of a dimension of one factor that this rank holds.
inline Block BlockOf(const KernelCall& call, const Dims& dims, int64_t dim) {
  const int factor = FactorAt(dims, dim);
  return factor < 0 ? Block{0, 1} : FactorBlockOf(call, factor);
}

// The size of such a dimension on one device.
inline int64_t GlobalSizeOf(const KernelCall& call, const Dims& dims, int64_t dim) {
  const int factor = FactorAt(dims, dim);
  return factor < 0 ? 1 : FactorSize(call, factor);
}

// How much of the factor of this name the rank holds; 1 where the rule has none (its size is 1).
inline int64_t LocalSizeOf(const KernelCall& call, std::string_view name) {
  for (size_t f = 0; f < call.rule.factors.size(); ++f) {
    if (call.rule.factors[f].name == name) return call.blocks[f].size();
  }
  return 1;
}

inline int64_t LocalSize(const KernelCall& call, const Product& product) {
  int64_t size = 1;
  for (int factor : product) size *= FactorBlockOf(call, factor).size();
  return size;
}

// The local sizes of the pieces a dimension is concatenated from.
inline std::vector<int64_t> LocalTermSizes(const KernelCall& call, const Dims& dims, int64_t dim) {
  std::vector<int64_t> sizes;
  for (const Product& term : dims[static_cast<size_t>(dim)].terms) {
    sizes.push_back(LocalSize(call, term));
  }
  return sizes;
}

// Is this the term of the partial sum to which what is added once (a bias) belongs?
inline bool AddsOnce(const KernelCall& call) {
  for (size_t f = 0; f < call.rule.factors.size(); ++f) {
    if (call.rule.factors[f].kind == FactorKind::kSummed && call.blocks[f].begin != 0) return false;
  }
  return true;
}

// An operand as this rank's term of the sum has it: itself, or zeros of which it still gets a
// gradient (of zeros), or undefined where it is.
inline at::Tensor AddedOnce(const KernelCall& call, const at::Tensor& bias) {
  return !bias.defined() || AddsOnce(call) ? bias : bias * 0;
}

inline bool AnyEmpty(std::span<const at::Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& t) { return t.defined() && t.numel() == 0; });
}

// `tensor`, through which autograd also reaches `sources`, with gradients of zero.
inline at::Tensor Connect(at::Tensor tensor, std::span<const at::Tensor> sources) {
  for (const at::Tensor& source : sources) {
    if (!source.requires_grad()) continue;
    const at::Tensor nothing = source.dim() == 0 ? source * 0 : source.narrow(0, 0, 0).sum();
    tensor = tensor + nothing.to(tensor.scalar_type());
  }
  return tensor;
}

// Result 0 of a call on an empty shard: zeros of its local shape (none, where the result is empty
// too), connected to every operand.
inline at::Tensor EmptyResult(const KernelCall& call) {
  const at::TensorOptions options =
      Operand(call).options().dtype(ToTorch(call.rule.result_dtypes[0]));
  return Connect(at::zeros(call.LocalResultShape(), options), call.operands);
}

// f16 and bf16 are widened where a sum of many terms is taken.
inline bool IsNarrow(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

// Indices that count from the end of a dimension of size n, made to count from its beginning.
inline at::Tensor FromBeginning(const at::Tensor& index, int64_t n) {
  const at::Tensor wide = index.to(at::kLong);
  return at::where(wide < 0, wide + n, wide);
}

}  // namespace heddle
