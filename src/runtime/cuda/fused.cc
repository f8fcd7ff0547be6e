#include "runtime/kernels/fused.h"

#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "runtime/cuda/cross_entropy.h"
#include "runtime/cuda/packing.h"

namespace heddle {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr int64_t kAlignBytes = 128;  // of rows that are ours to lay out

bool IsAligned(int64_t row, const at::Tensor& like) {
  return row * static_cast<int64_t>(like.element_size()) % 16 == 0;
}

// A tensor whose rows (along the last dimension) begin at multiples of kAlignBytes.
at::Tensor AlignedEmpty(const std::vector<int64_t>& sizes, const at::TensorOptions& options) {
  const int64_t unit = kAlignBytes / static_cast<int64_t>(options.dtype().itemsize());
  std::vector<int64_t> strides(sizes.size(), 1);
  int64_t stride = (sizes.back() + unit - 1) / unit * unit;
  for (size_t d = sizes.size() - 1; d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return at::empty_strided(sizes, strides, options);
}

LogitRows Describe(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored) {
  LogitType type = LogitType::kF32;
  if (logits.scalar_type() == at::kBFloat16) type = LogitType::kBF16;
  if (logits.scalar_type() == at::kHalf) type = LogitType::kF16;
  return {logits.data_ptr(),          type,   logits.size(0), logits.size(1), logits.stride(0),
          labels.data_ptr<int64_t>(), ignored};
}

void Check(const char* error) { TORCH_CHECK(error == nullptr, "a kernel of heddle: ", error); }

struct RowLoss : torch::autograd::Function<RowLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& logits,
                            const at::Tensor& labels, int64_t ignored) {
    const at::TensorOptions wide = logits.options().dtype(at::kFloat);
    at::Tensor losses = at::empty({logits.size(0)}, wide), log_sums = at::empty_like(losses);
    Check(RowLosses(Describe(logits, labels, ignored), losses.data_ptr<float>(),
                    log_sums.data_ptr<float>(), c10::cuda::getCurrentCUDAStream().stream()));
    ctx->save_for_backward({logits, labels, log_sums});
    ctx->saved_data["ignored"] = ignored;
    return losses;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &logits = saved[0], &labels = saved[1], &log_sums = saved[2];
    const at::Tensor of_loss = gradients[0].contiguous();
    at::Tensor made = AlignedEmpty({logits.size(0), logits.size(1)}, logits.options());
    Check(RowLossGradients(Describe(logits, labels, ctx->saved_data["ignored"].toInt()),
                           log_sums.data_ptr<float>(), of_loss.data_ptr<float>(), made.data_ptr(),
                           made.stride(0), c10::cuda::getCurrentCUDAStream().stream()));
    return {made, at::Tensor(), at::Tensor()};
  }
};

// Products with a dimension that is no multiple of 16 bytes run several times as slow, whatever the rows are aligned
// to. So the outputs are taken in two parts: as many as make such a multiple, and the few that are left.
struct Product : torch::autograd::Function<Product> {
  static int64_t BodyOf(int64_t outputs, const at::Tensor& like) {
    const int64_t unit = 16 / static_cast<int64_t>(like.element_size());
    return outputs / unit * unit;
  }

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w,
                            bool rows_are_outputs) {
    const at::Tensor factor = rows_are_outputs ? w.t() : w;
    const at::Tensor rows = x.reshape({-1, x.size(-1)});
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = factor.size(1);
    at::Tensor made = AlignedEmpty(sizes, x.options());
    at::Tensor flat = made.view({rows.size(0), factor.size(1)});
    const int64_t body = BodyOf(factor.size(1), x), tail = factor.size(1) - body;
    at::Tensor first = flat.narrow(1, 0, body), last = flat.narrow(1, body, tail);
    if (body > 0) at::mm_out(first, rows, factor.narrow(1, 0, body));
    at::mm_out(last, rows, factor.narrow(1, body, tail));
    ctx->save_for_backward({x, w});
    ctx->saved_data["rows_are_outputs"] = rows_are_outputs;
    return made;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1];
    const bool rows_are_outputs = ctx->saved_data["rows_are_outputs"].toBool();
    at::Tensor gradient = gradients[0].reshape({-1, gradients[0].size(-1)});
    if (gradient.stride(1) != 1 || !IsAligned(gradient.stride(0), gradient)) {
      at::Tensor aligned = AlignedEmpty({gradient.size(0), gradient.size(1)}, gradient.options());
      gradient = aligned.copy_(gradient);
    }
    const int64_t body = BodyOf(gradient.size(1), x), tail = gradient.size(1) - body;
    const at::Tensor first = gradient.narrow(1, 0, body), last = gradient.narrow(1, body, tail);
    at::Tensor of_x, of_w;
    if (ctx->needs_input_grad(0)) {
      const at::Tensor factor = rows_are_outputs ? w : w.t();
      of_x = at::mm(first, factor.narrow(0, 0, body));
      of_x = of_x.addmm_(last, factor.narrow(0, body, tail)).view(x.sizes());
    }
    if (ctx->needs_input_grad(1)) {
      const at::Tensor rows = x.reshape({-1, x.size(-1)});
      of_w = at::empty(w.sizes(), w.options());
      at::Tensor by_output = rows_are_outputs ? of_w : of_w.t();
      at::Tensor of_first = by_output.narrow(0, 0, body), of_last = by_output.narrow(0, body, tail);
      if (body > 0) at::mm_out(of_first, first.t(), rows);
      at::mm_out(of_last, last.t(), rows);
    }
    return {of_x, of_w, at::Tensor()};
  }
};

}  // namespace

std::optional<at::Tensor> FusedRowLosses(const at::Tensor& logits, const at::Tensor& labels,
                                         int64_t ignored) {
  const at::ScalarType type = logits.scalar_type();
  const bool known = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  if (!logits.is_cuda() || logits.dim() != 2 || labels.dim() != 1 || !known) return std::nullopt;
  const at::Tensor rows = logits.stride(1) == 1 ? logits : logits.contiguous();
  return RowLoss::apply(rows, labels.contiguous(), ignored);
}

std::optional<at::Tensor> AlignedProduct(const at::Tensor& x, const at::Tensor& w,
                                         bool rows_are_outputs) {
  const int64_t outputs = w.size(rows_are_outputs ? 0 : 1);
  if (!x.is_cuda() || x.dim() < 2 || x.numel() == 0 || w.numel() == 0 || IsAligned(outputs, x) ||
      x.scalar_type() != w.scalar_type()) {
    return std::nullopt;
  }
  return Product::apply(x, w, rows_are_outputs);
}

namespace {

std::optional<PackedType> PackedTypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return PackedType::kF32;
    case at::kBFloat16:
      return PackedType::kBF16;
    case at::kHalf:
      return PackedType::kF16;
    default:
      return std::nullopt;
  }
}

PackedIndex Places(const at::Tensor& index) {
  return {index.data_ptr(), index.scalar_type() == at::kLong, index.numel()};
}

}  // namespace

std::optional<at::Tensor> FusedCompress(const at::Tensor& dense, const at::Tensor& index) {
  std::optional<PackedType> type = PackedTypeOf(dense);
  if (!type || !dense.is_contiguous()) return std::nullopt;
  at::Tensor kept = at::empty({index.numel()}, dense.options());
  Check(GatherKept(dense.data_ptr(), *type, Places(index), kept.data_ptr(),
                   c10::cuda::getCurrentCUDAStream().stream()));
  return kept;
}

bool FusedExpand(const at::Tensor& kept, const at::Tensor& index, const at::Tensor& dense) {
  std::optional<PackedType> from = PackedTypeOf(kept), to = PackedTypeOf(dense);
  if (!from || !to || !kept.is_contiguous() || !dense.is_contiguous()) return false;
  Check(ScatterKept(kept.data_ptr(), *from, Places(index), dense.data_ptr(), *to,
                    c10::cuda::getCurrentCUDAStream().stream()));
  return true;
}

}  // namespace heddle
