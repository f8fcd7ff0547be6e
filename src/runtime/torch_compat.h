// Everything that differs between the versions of libtorch that heddle builds against: 1.13 (Debian, CPU) and 2.x
// (upstream, CPU or CUDA). No other file tests the version.
#pragma once

#include <ATen/ATen.h>
#include <torch/version.h>

#include <optional>
#include <vector>

#define HEDDLE_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||         \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace heddle {

// softmax(scale * q k^T + mask) v in one call that never holds the scores, or nothing where this version has no such
// call. An undefined `mask` adds nothing; `causal` (from position 0) needs an undefined mask.
inline std::optional<at::Tensor> FusedAttention([[maybe_unused]] const at::Tensor& q,
                                                [[maybe_unused]] const at::Tensor& k,
                                                [[maybe_unused]] const at::Tensor& v,
                                                [[maybe_unused]] const at::Tensor& mask,
                                                [[maybe_unused]] bool causal,
                                                [[maybe_unused]] double scale) {
#if HEDDLE_TORCH_AT_LEAST(2, 1)
  if (mask.defined()) return at::scaled_dot_product_attention(q, k, v, mask, 0.0, false, scale);
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal, scale);
#else
  return std::nullopt;
#endif
}

// With deterministic kernels 2.x fills memory that is allocated. Our kernels do not need that: turns it off.
inline void LeaveEmptyTensorsEmpty() {
#if HEDDLE_TORCH_AT_LEAST(2, 2)
  at::globalContext().setDeterministicFillUninitializedMemory(false);
#endif
}

// Makes the storage of a tensor hold so many elements: 0 frees its memory, otherwise the new memory is not initialised.
// Views of the tensor see the new storage.
inline void ResizeStorage(const at::Tensor& tensor, int64_t elements) {
  at::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  size_t bytes = static_cast<size_t>(elements) * tensor.element_size();
  if (storage->nbytes() == bytes) return;
  at::Tensor fresh = at::empty({elements}, tensor.options());
  storage->set_data_ptr_noswap(fresh.storage().unsafeGetStorageImpl()->set_data_ptr({}));
  storage->set_nbytes(bytes);
}

// Moves the memory of one tensor to the storage of another tensor of the same size and layout; views of that one see
// it.
inline void MoveStorage(const at::Tensor& from, const at::Tensor& to) {
  at::StorageImpl* source = from.storage().unsafeGetStorageImpl();
  at::StorageImpl* target = to.storage().unsafeGetStorageImpl();
  size_t bytes = source->nbytes();
  target->set_data_ptr_noswap(source->set_data_ptr({}));
  target->set_nbytes(bytes);
  source->set_nbytes(0);
}

// Copies each tensor to its partner of the same shape, which may be of another type. Takes few kernels where libtorch
// has such kernels.
inline void CopyEach(std::vector<at::Tensor> to, const std::vector<at::Tensor>& from) {
#if HEDDLE_TORCH_AT_LEAST(2, 1)
  if (!to.empty() && to.front().is_cuda()) return at::_foreach_copy_(to, from);
#endif
  for (size_t t = 0; t < to.size(); ++t) to[t].copy_(from[t]);
}

// One step of Adam on a device. Every number that changes between steps is on the device.
struct AdamStep {
  std::vector<at::Tensor> parameters, gradients, first, second;
  at::Tensor step;  // the number of this step, from 1
  at::Tensor lr;
  double beta1 = 0, beta2 = 0, weight_decay = 0, eps = 0;
  bool decoupled = true;     // weight decay is applied to the weights, as in AdamW
  at::Tensor inverse_scale;  // a divisor of the gradients
  at::Tensor skip;           // 1: nothing changes
};
inline void FusedAdam([[maybe_unused]] AdamStep s) {
#if HEDDLE_TORCH_AT_LEAST(2, 3)
  std::vector<at::Tensor> steps(s.parameters.size(), s.step);
  if (s.decoupled) {
    at::_fused_adamw_(s.parameters, s.gradients, s.first, s.second, {}, steps, s.lr, s.beta1,
                      s.beta2, s.weight_decay, s.eps, /*amsgrad=*/false, /*maximize=*/false,
                      s.inverse_scale, s.skip);
  } else {
    at::_fused_adam_(s.parameters, s.gradients, s.first, s.second, {}, steps, s.lr, s.beta1,
                     s.beta2, s.weight_decay, s.eps, /*amsgrad=*/false, /*maximize=*/false,
                     s.inverse_scale, s.skip);
  }
#else
  TORCH_CHECK(false, "Adam on a device needs libtorch 2.3 or newer");
#endif
}

// Does FusedAttention return a result in this version? Preparing its operands costs copies.
inline constexpr bool kHasFusedAttention = HEDDLE_TORCH_AT_LEAST(2, 1);

}  // namespace heddle
