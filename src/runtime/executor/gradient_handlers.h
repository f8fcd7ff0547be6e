// Gradients of parameters: what segments do not add themselves, and reductions over devices.
//
// A group's gradient is at first what backward added (GradientAccumulator). A reduction, the norm or a test that wants
// to see it makes one flat tensor of it, in the buffer of the group's gradients; where none of them does, the update
// takes it as it was added.
#pragma once

#include <ATen/ATen.h>

#include "runtime/executor/device_state.h"
#include "runtime/executor/started_transfer.h"

namespace heddle {

class GradientHandlers {
 public:
  // `state` outlives it. `keep`: gradients are to be read after the step.
  GradientHandlers(DeviceState& state, bool keep) : state_(state), keep_(keep) {}

  void AddGradient(const Instruction& i);
  void ComputeFactorGradient(const Instruction& i);
  StartedTransfer ReduceGradients(const Instruction& i);
  StartedTransfer ReduceShards(const Instruction& i);
  StartedTransfer SyncTied(const Instruction& i);

  // Is the gradient in a buffer still what backward added, to be used as it is? On the CPU only: an accelerator takes
  // it flat, with a few kernels rather than some for every parameter.
  bool IsAsAdded(BufferId id) const;
  // The flat gradient that an update reads.
  const at::Tensor& Flat(BufferId id);
  // The sum of squares of a buffer's gradient, of the elements that this device counts: an f64 tensor of one number.
  at::Tensor SquaredNorm(BufferId id);

 private:
  DeviceState& state_;
  bool keep_;
};

}  // namespace heddle
