#include "runtime/executor/gradient_memory.h"

#include <algorithm>

namespace heddle {

GradientMemory::GradientMemory(const DeviceState& state) : state_(state) {
  for (BufferId id : state.run.buffers.ids()) {
    BufferKind kind = state.run.buffers[id].kind;
    if (kind == BufferKind::kWeightGradients || kind == BufferKind::kReduced)
      buffers_.push_back(id);
  }
}

void GradientMemory::Sample(const Instruction& i, int64_t step) {
  if (first_step_ >= 0 && first_step_ != step) return;
  first_step_ = step;
  auto holds = [&](BufferId id) {
    return std::binary_search(buffers_.begin(), buffers_.end(), id);
  };
  if (std::none_of(i.adds.begin(), i.adds.end(), holds) &&
      std::none_of(i.writes.begin(), i.writes.end(), holds))
    return;
  std::vector<at::Tensor> held;
  for (const auto& [key, store] : state_.parameters->stores()) {
    const std::vector<at::Tensor>& added = store.gradients().added();
    held.insert(held.end(), added.begin(), added.end());
  }
  for (BufferId id : buffers_) held.push_back(state_.buffers[id]);
  most_bytes_ = std::max(most_bytes_, StorageBytes(held, state_.on));
}

}  // namespace heddle
