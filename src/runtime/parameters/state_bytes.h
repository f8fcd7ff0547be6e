// How many bytes the state of a model takes on a device, by what it is.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace heddle {

struct StateBytes {
  int64_t weights = 0;    // that nodes read
  int64_t gradients = 0;  // at their most
  // fp32 weights of the optimizer, where they are not the weights that nodes read
  int64_t master = 0;
  int64_t moments = 0;
  int64_t index = 0;  // of what is kept of pruned parameters
  int64_t total() const { return weights + gradients + master + moments + index; }
  StateBytes& operator+=(const StateBytes& other);
};

// The bytes of the storages of some tensors on a device, each storage counted once. Undefined tensors have none.
int64_t StorageBytes(const std::vector<at::Tensor>& tensors, at::Device on);

}  // namespace heddle
