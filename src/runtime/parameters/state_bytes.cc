#include "runtime/parameters/state_bytes.h"

#include <set>

namespace heddle {

StateBytes& StateBytes::operator+=(const StateBytes& other) {
  weights += other.weights;
  gradients += other.gradients;
  master += other.master;
  moments += other.moments;
  index += other.index;
  return *this;
}

int64_t StorageBytes(const std::vector<at::Tensor>& tensors, at::Device on) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.device() != on) continue;
    if (seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
  }
  return bytes;
}

}  // namespace heddle
