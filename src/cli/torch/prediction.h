// What the simulator says of a run, beside what was measured of it.
//
//   device 0 of 4, the busiest       count   predicted    measured
//     run                               48     1.21 ms     31.2 ms
//     ...
//
// Predicted: the time instructions of a kind take on the device or its links, where communication may go on behind
// other work. Measured (in the median step): the time the device was in them, which includes waiting for other
// devices; it adds up to the step.
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
  int64_t peak_memory_bytes = 0;  // of the device that needs most
  int64_t device = 0,
          devices = 1;  // the one that computes longest, the first of equals; how many there are
  std::array<double, kOpcodeCount> kind_seconds = {};  // of that device
  std::array<int64_t, kOpcodeCount> kind_count = {};
  std::string uncalibrated;  // a device type whose rates are nominal; empty: none
};

// Simulates a step. Throws InputError where the cluster cannot run the program.
StepPrediction Predict(const Program& program, const Plan& plan, const SimOptions& options = {});

// A table for people, and `predicted_*`, `prediction` and `instructions` of the command's JSON.
std::string BesideMeasured(const StepPrediction& prediction, const TrainSummary& summary);
void AddPrediction(Json& json, const StepPrediction& prediction, const TrainSummary& summary);

}  // namespace heddle
