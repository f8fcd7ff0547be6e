// What one training step came to, as the simulator predicts it and the runtime measures it.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle {

struct StepRecord {
  int64_t step = 0;
  double loss = 0;          // over the whole batch; NaN where nothing was computed
  double grad_norm = 0;     // of all gradients together, before clipping; NaN likewise
  double loss_scale = 0;    // with f16 gradients, of the steps to come; else 0
  bool skipped = false;     // gradients are not finite (f16: they overflowed): no update
  double seconds = 0;       // from the first instruction of any device to the last
  double host_seconds = 0;  // of these, on an accelerator: what the host did before and after it
  int64_t peak_memory_bytes = 0;        // of tensors; measured: on this device, 0 without a meter
  int64_t process_bytes = 0;            // measured: the most its process was resident with so far
  int64_t payload_bytes = 0;            // handed to the transport, by all devices together
  std::vector<double> compute_seconds;  // per device; empty where not measured
  std::vector<double> exposed_communication_seconds;  // per device: compute waits for it
  // Per Opcode: how long this device was in such instructions, waiting for other devices included. Communication
  // that goes on behind other work counts where it is started, pushed on and waited for. Adds up to `seconds`.
  std::vector<double> kind_seconds;
};

}  // namespace heddle
