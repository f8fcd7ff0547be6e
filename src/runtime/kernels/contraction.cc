// Matrix products and attention. A contracted dimension that is split leaves each rank a term of
// the sum: the product of its blocks, with the bias in the first rank's term only.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernels/fused.h"
#include "runtime/kernels/kernel_util.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

Tensors MatMul(const KernelCall& call) { return {at::matmul(Operand(call, 0), Operand(call, 1))}; }

Tensors Linear(const KernelCall& call) {
  const bool rows_are_outputs = IntAttr(call.attributes, "transpose_weight", 0) != 0;
  const at::Tensor& w = Operand(call, 1);
  const at::Tensor bias = AddedOnce(call, OptionalOperand(call, 2));
  if (!bias.defined()) {
    std::optional<at::Tensor> made = AlignedProduct(Operand(call, 0), w, rows_are_outputs);
    if (made) return {*made};
  }
  return {at::linear(Operand(call, 0), rows_are_outputs ? w : w.t(), bias)};
}

Tensors Einsum(const KernelCall& call) {
  return {at::einsum(StringAttr(call.attributes, "equation"),
                     at::TensorList(call.operands.data(), call.operands.size()))};
}

// True where query `first_query` + row may not see the key of the column.
at::Tensor Future(const at::Tensor& q, const at::Tensor& k, int64_t first_query) {
  const at::TensorOptions options = q.options().dtype(at::kLong);
  const at::Tensor query = at::arange(first_query, first_query + q.size(-2), options);
  const at::Tensor key = at::arange(k.size(-2), options);
  return key.unsqueeze(0) > query.unsqueeze(1);
}

// Repeats each of the key heads for the query heads that read it.
at::Tensor RepeatHeads(const at::Tensor& k, int64_t times) {
  return times == 1 ? k : k.repeat_interleave(times, -3);
}

// One library call; `future` is defined only where causal does not begin at position 0. The result
// has the batch dimensions `batch`, to which the operands may yet have to be broadcast.
at::Tensor AttentionFused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& bias, const at::Tensor& future, bool causal,
                          double scale, const Shape& batch) {
  at::Tensor mask = bias;
  if (future.defined()) {
    const at::Tensor base = bias.defined() ? bias : at::zeros({1, 1}, q.options());
    mask = base.masked_fill(future, -std::numeric_limits<double>::infinity());
  }
  // The fused kernels want a batch dimension.
  const bool lone = batch.empty();
  const auto lift = [&](const at::Tensor& t) {
    Shape sizes = lone ? Shape{1} : batch;
    for (int64_t d = -3; d < 0; ++d) sizes.push_back(t.size(d));
    return t.expand(sizes);
  };
  const int64_t times = q.size(-3) / k.size(-3);
  const at::Tensor y = *FusedAttention(lift(q), lift(RepeatHeads(k, times)),
                                       lift(RepeatHeads(v, times)), mask, causal, scale);
  return lone ? y.squeeze(0) : y;
}

// The scores written out. The query heads that share a key head are rows of one product, so keys
// and values are not repeated: [..,(h g),i,d] is read as [..,h,(g i),d].
at::Tensor AttentionComposed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& bias, const at::Tensor& future, double scale) {
  const auto resized = [](const at::Tensor& t, int64_t heads, int64_t rows) {
    std::vector<int64_t> sizes = t.sizes().vec();
    sizes[sizes.size() - 3] = heads;
    sizes[sizes.size() - 2] = rows;
    return t.reshape(sizes);
  };
  const int64_t heads = q.size(-3), key_heads = k.size(-3), rows = q.size(-2);
  const int64_t shared_rows = heads / key_heads * rows;
  at::Tensor scores = at::matmul(resized(q, key_heads, shared_rows) * scale, k.transpose(-2, -1));
  scores = resized(scores, heads, rows);
  if (bias.defined()) scores = scores + bias;
  if (future.defined()) {
    scores = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights = at::softmax(scores, -1);
  return resized(at::matmul(resized(weights, key_heads, shared_rows), v), heads, rows);
}

Tensors Attention(const KernelCall& call) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  const at::Tensor &q = Operand(call, 0), &k = Operand(call, 1), &v = Operand(call, 2);
  at::Tensor bias = OptionalOperand(call, 3);
  if (bias.defined()) bias = bias.to(q.scalar_type());
  const bool causal = IntAttr(call.attributes, "causal", 0) != 0;
  const double scale = FloatAttr(call.attributes, "scale");
  const int64_t first_query = BlockOf(call, call.rule.operands[0], q.dim() - 2).begin;

  const bool from_start = first_query == 0 && !bias.defined() && kHasFusedAttention;
  const at::Tensor future = causal && !from_start ? Future(q, k, first_query) : at::Tensor();
  if (kHasFusedAttention) {
    Shape batch = call.LocalResultShape();
    batch.resize(batch.size() - 3);
    return {AttentionFused(q, k, v, bias, future, causal && from_start, scale, batch)};
  }
  return {AttentionComposed(q, k, v, bias, future, scale)};
}

}  // namespace

std::vector<KernelDef> ContractionKernels() {
  return {
      {"MatMul", MatMul},
      {"Linear", Linear},
      {"Einsum", Einsum},
      {"Attention", Attention},
  };
}

}  // namespace heddle
