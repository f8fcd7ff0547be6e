// The trace of an executor: one event per instruction of every step, and the memory at their ends. Does nothing where
// tracing is off.
//
//   size_t event = trace.Open(instruction);
//   trace.Close(event, begin, end);          // when its work, or its transfer, has ended
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/trace.h"

namespace heddle {

class TraceRecorder {
 public:
  // Times in the trace count from now on. `program` outlives it.
  TraceRecorder(const Program& program, int64_t device, bool on);

  bool on() const { return on_; }
  const Trace& trace() const { return trace_; }

  void BeginStep() { first_event_ = trace_.events.size(); }
  // The event of an instruction that starts now; its number.
  size_t Open(const Instruction& i);
  // Its times, seconds of SteadySeconds. Further calls for the same event do nothing.
  void Close(size_t event, double begin, double end);
  // Changes that are too small to be seen are left out.
  void SampleMemory(double time, int64_t bytes);
  // Times that the device measured: as in StepTimes::UseDeviceTimes, for all instructions of the step.
  void UseDeviceTimes(double step_start, const std::vector<double>& marks);

 private:
  const Program& program_;
  int64_t device_;
  bool on_;
  double origin_;
  Trace trace_;
  size_t first_event_ = 0;  // of this step
  double communication_until_ = 0;
  double sampled_bytes_ = 0, most_bytes_ = 0;
};

}  // namespace heddle
