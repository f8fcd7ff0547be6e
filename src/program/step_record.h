// What one training step amounted to, simulated or real.
#pragma once

#include <cstdint>

namespace heddle {

struct StepRecord {
  int64_t step = 0;
  double loss = 0;       // before the update
  double grad_norm = 0;  // of all gradients together, before clipping
  double seconds = 0;
  int64_t peak_memory_bytes = 0;
};

}  // namespace heddle
