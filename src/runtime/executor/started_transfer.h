// What the handler of an instruction has started on the transport and not waited for. This is the seam between
// handlers, which say what is done, and the sequencer, which decides when it is waited for.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "base/clock.h"
#include "runtime/executor/device_state.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct StartedTransfer {
  double begin = SteadySeconds();  // when it was started
  std::vector<Ticket> tickets = {};
  // Memory that the transport reads and writes until the tickets are done.
  std::vector<at::Tensor> keep = {};
  // Called once, after the tickets are done: makes the buffers that the instruction writes or adds to.
  std::function<void()> finish = {};
};

// Starts the collective of an instruction, as Communicators::Start does.
StartedTransfer StartCollective(const DeviceState& state, const Instruction& i, Reduction reduction,
                                const at::Tensor& give, const at::Tensor& get,
                                std::function<void()> finish);

}  // namespace heddle
