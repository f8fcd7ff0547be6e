#include "runtime/checkpoint/state.h"

namespace heddle {

void CopyToHost(const std::vector<StatePart>& parts, std::vector<SavedPart>& saved) {
  saved.resize(parts.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    const StatePart& part = parts[p];
    SavedPart& to = saved[p];
    to.name = part.name;
    to.shape = part.shape;
    to.tile = part.tile;
    to.elements = part.elements;
    to.index.reset();
    if (part.index.defined()) {
      bool wide = part.index.scalar_type() == at::kLong;
      to.index.emplace(wide ? DType::kI64 : DType::kI32, Shape{part.index.numel()});
      at::from_blob(to.index->data.data(), {part.index.numel()}, part.index.scalar_type())
          .copy_(part.index);
    }
    for (size_t k = 0; k < to.values.size(); ++k) {
      std::optional<HostTensor>& values = to.values[k];
      if (!part.values[k].defined()) {
        values.reset();
        continue;
      }
      Shape shape = {part.values[k].numel()};
      if (!values || values->shape != shape) values.emplace(DType::kF32, shape);
      at::from_blob(values->data.data(), shape, at::kFloat).copy_(part.values[k]);
    }
  }
}

}  // namespace heddle
