// What a plan's step amounts to: the same for predicted and for measured steps.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace heddle {

struct StepSize {
  double tokens = 0;  // or samples, where inputs are no tokens
  bool is_tokens = false;
  double flops = 0;       // of matrix products, forward and backward, nothing twice
  double peak_flops = 0;  // of the plan's devices per second, at its precision
  bool nominal = false;   // nobody measured the rates of some device (NominalDevice)
  int64_t devices = 1;
};
StepSize SizeOfStep(const Model& model, const Plan& plan);

// The type of the plan's first device whose rates nobody measured (those of the preset `local`); empty: none.
std::string NominalDevice(const Plan& plan);

}  // namespace heddle
