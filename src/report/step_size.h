// The size of a plan's step, the same for predicted and measured steps.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace heddle {

struct StepSize {
  double tokens = 0;  // or samples, if the inputs are not tokens
  bool is_tokens = false;
  double flops = 0;       // of matrix products, forward and backward, without recomputation
  double peak_flops = 0;  // FLOP/s of all devices of the plan, at its precision
  bool nominal = false;   // the rates of some device are not measured (NominalDevice)
  int64_t devices = 1;
};
StepSize SizeOfStep(const Model& model, const Plan& plan);

// The type of the plan's first device whose rates are placeholders (those of the preset `local`); empty: none.
std::string NominalDevice(const Plan& plan);

}  // namespace heddle
