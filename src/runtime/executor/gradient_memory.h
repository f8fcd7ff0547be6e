// The most that gradients of parameters take on a device, measured after every instruction of the first step that
// writes some. All steps are alike in this.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/executor/device_state.h"

namespace heddle {

class GradientMemory {
 public:
  // `state` outlives it.
  explicit GradientMemory(const DeviceState& state);

  void Sample(const Instruction& i, int64_t step);
  int64_t most_bytes() const { return most_bytes_; }

 private:
  const DeviceState& state_;
  std::vector<BufferId> buffers_;  // that hold gradients of whole groups, ascending
  int64_t first_step_ = -1;        // that was run
  int64_t most_bytes_ = 0;
};

}  // namespace heddle
