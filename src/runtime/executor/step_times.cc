#include "runtime/executor/step_times.h"

#include <algorithm>

#include "base/clock.h"

namespace heddle {

void StepTimes::BeginStep() {
  kind_seconds_.fill(0);
  start_ = last_ = SteadySeconds();
}

void StepTimes::Resume() { last_ = SteadySeconds(); }

void StepTimes::Charge(Opcode kind) {
  double now = SteadySeconds();
  kind_seconds_[static_cast<size_t>(kind)] += now - last_;
  last_ = now;
}

void StepTimes::UseDeviceTimes(const DeviceProgram& run, const std::vector<double>& marks) {
  kind_seconds_.fill(0);
  for (size_t i = 0; i < run.instructions.size(); ++i)
    kind_seconds_[static_cast<size_t>(run.instructions[i].op)] += marks[i + 1] - marks[i];
  host_seconds_ = std::max(0.0, last_ - start_ - marks.back());
  kind_seconds_[static_cast<size_t>(Opcode::kReport)] += host_seconds_;
}

void StepTimes::Write(StepRecord& record) const {
  record.seconds = last_ - start_;
  record.host_seconds = host_seconds_;
  record.kind_seconds.assign(kind_seconds_.begin(), kind_seconds_.end());
}

}  // namespace heddle
