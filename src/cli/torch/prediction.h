// The simulator's prediction of a run, beside its measurement.
//
//   device 0 of 4, the busiest       count   predicted    measured
//     run                               48     1.21 ms     31.2 ms
//     ...
//
// Predicted is the time that instructions of a kind take on the device or its links; communication may overlap other
// work. Measured (in the median step) is the time that the device spends in them, including waiting for other devices;
// it adds up to the step.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/json.h"
#include "plan/plan.h"
#include "program/program.h"
#include "runtime/train.h"
#include "sim/options.h"

namespace heddle {

struct StepPrediction {
  double step_seconds = 0;
  int64_t peak_memory_bytes = 0;  // of the device that needs most memory
  int64_t device = 0,
          devices = 1;  // the device that computes longest (of equals the first), and their number
  std::array<double, kOpcodeCount> kind_seconds = {};  // of that device
  std::array<int64_t, kOpcodeCount> kind_count = {};
  std::string uncalibrated;  // a device type whose rates are nominal; empty: none
};

// Simulates a step. Throws InputError if the cluster cannot run the program.
StepPrediction Predict(const Program& program, const Plan& plan, const SimOptions& options = {});

// The table above, and `predicted_*`, `prediction` and `instructions` of the JSON output.
std::string BesideMeasured(const StepPrediction& prediction, const TrainSummary& summary);
void AddPrediction(Json& json, const StepPrediction& prediction, const TrainSummary& summary);

}  // namespace heddle
