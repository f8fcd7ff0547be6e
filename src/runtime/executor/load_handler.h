// Loads: the rows of a step, cut to what this device reads. On the CPU they are cut when they are loaded; an
// accelerator has them brought one step ahead (step_inputs.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "runtime/executor/device_state.h"
#include "runtime/step_inputs.h"

namespace heddle {

class LoadHandler {
 public:
  // `state` outlives it.
  LoadHandler(DeviceState& state, DataFn data);

  // Forgets the rows of the last step.
  void BeginStep(int64_t step);
  // On an accelerator: has the inputs of the step copied to where Load finds them; again where the step is repeated.
  void BringInputs();
  // On an accelerator: brings the inputs of a step, while the device computes another one.
  void PrepareStep(int64_t step);

  void Load(const Instruction& i);

 private:
  DeviceState& state_;
  DataFn data_;
  int64_t step_ = 0;
  std::map<int, Batch> batches_;        // by micro-batch: rows at hand
  std::unique_ptr<StepInputs> inputs_;  // on an accelerator
};

}  // namespace heddle
