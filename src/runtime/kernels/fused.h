// Kernels that libtorch does not have in one piece. Each answers nothing where it has no better way: there, or on that
// device, a few calls of libtorch do the same.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace heddle {

// -log softmax(logits)[label] of each row, f32, 0 where the label is `ignored`. Logits are [n, classes] of any float
// type, labels i64 [n].
std::optional<at::Tensor> FusedRowLosses(const at::Tensor& logits, const at::Tensor& labels,
                                         int64_t ignored);

// x w (or x w^T, where the rows of w are outputs) for numbers of outputs that are no multiple of 16 bytes (a vocabulary
// of 50257), of which libraries make products several times as slow. The rows of the result do begin at such multiples.
std::optional<at::Tensor> AlignedProduct(const at::Tensor& x, const at::Tensor& w,
                                         bool rows_are_outputs);

// What is kept of flat dense numbers, of their type, on a CUDA device (packing.h).
std::optional<at::Tensor> FusedCompress(const at::Tensor& dense, const at::Tensor& index);
// dense[index] = kept, with the cast on the way. False where nothing was done.
bool FusedExpand(const at::Tensor& kept, const at::Tensor& index, const at::Tensor& dense);

}  // namespace heddle
