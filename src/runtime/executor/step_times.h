// How long a step takes, by kind of instruction. Every second between the beginning of a step and the last Charge
// belongs to exactly one kind.
//
//   times.BeginStep();
//   ... work of a Run ...
//   times.Charge(Opcode::kRun);            // what has passed since the last call
//   times.Write(record);
//
// This is the host's clock. On an accelerator, where the host only enqueues work, UseDeviceTimes puts in place of it
// what the device measured. One call costs one reading of the clock.
#pragma once

#include <array>
#include <vector>

#include "program/opcodes.h"
#include "program/program.h"
#include "program/step_record.h"

namespace heddle {

class StepTimes {
 public:
  void BeginStep();
  // The time since the last call is nobody's: other jobs had the device.
  void Resume();
  void Charge(Opcode kind);

  // The kind that is charged for what passes until a transfer is waited for: that of the instruction that runs now.
  Opcode running() const { return running_; }
  void set_running(Opcode kind) { running_ = kind; }

  double start() const { return start_; }  // of the step; seconds of SteadySeconds, as is `last`
  double last() const { return last_; }    // when the clock was last read

  // `marks` has one number more than the program has instructions: seconds from the beginning of the step's work on
  // the device to the end of each instruction. What is left of the step was spent on the host, bringing inputs,
  // starting work and reading the report, and counts for the report.
  void UseDeviceTimes(const DeviceProgram& run, const std::vector<double>& marks);

  void Write(StepRecord& record) const;

 private:
  std::array<double, kOpcodeCount> kind_seconds_ = {};
  double start_ = 0, last_ = 0;
  double host_seconds_ = 0;
  Opcode running_ = Opcode::kLoad;
};

}  // namespace heddle
