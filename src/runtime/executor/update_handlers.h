// Instructions on parameters as wholes: the report of a step, updates, gathers of weights that are split, and copies
// of what is offloaded.
#pragma once

#include <vector>

#include "runtime/executor/device_state.h"
#include "runtime/executor/gradient_handlers.h"
#include "runtime/executor/started_transfer.h"
#include "runtime/executor/step_report.h"

namespace heddle {

class UpdateHandlers {
 public:
  // All of them outlive it. `keep`: gradients are to be read after the step, at the price of gathering them.
  UpdateHandlers(DeviceState& state, GradientHandlers& gradients, StepReport& report, bool keep)
      : state_(state), gradients_(gradients), report_(report), keep_(keep) {}

  void BeginStep() { kept_.clear(); }

  StartedTransfer Report(const Instruction& i);
  void Update(const Instruction& i);
  StartedTransfer GatherWeights(const Instruction& i);
  void Fetch(const Instruction& i);
  void Evict(const Instruction& i);

  // Of the last step, where gradients are kept.
  const std::vector<ParameterPart>& kept_gradients() const { return kept_; }

 private:
  void KeepGradients(const Instruction& i, const at::Tensor& reduced);

  DeviceState& state_;
  GradientHandlers& gradients_;
  StepReport& report_;
  bool keep_;
  std::vector<ParameterPart> kept_;
};

// The tiles of all parameters that this device holds, gathered where they are split. Waits; all devices of a group
// call it together.
std::vector<ParameterPart> HeldWeights(const DeviceState& state);

}  // namespace heddle
