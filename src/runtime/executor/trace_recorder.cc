#include "runtime/executor/trace_recorder.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "program/text.h"

namespace heddle {
namespace {

constexpr double kNotYet = -1;        // the end of an event that has not ended
constexpr double kMemorySteps = 256;  // the counter of memory moves by this part of the most so far

}  // namespace

TraceRecorder::TraceRecorder(const Program& program, int64_t device, bool on)
    : program_(program), device_(device), on_(on), origin_(SteadySeconds()) {}

size_t TraceRecorder::Open(const Instruction& i) {
  if (!on_) return 0;
  TraceEvent event;
  event.device = device_;
  event.stream = i.stream;
  event.name = InstructionName(program_, i);
  event.category = Category(program_, i);
  event.end = kNotYet;
  trace_.events.push_back(std::move(event));
  return trace_.events.size() - 1;
}

void TraceRecorder::Close(size_t at, double begin, double end) {
  if (!on_) return;
  TraceEvent& event = trace_.events[at];
  if (event.end != kNotYet) return;
  event.start = begin - origin_;
  event.end = end - origin_;
  // Transfers overlap in flight; a track shows each from the end of the one before.
  if (event.stream == Stream::kCommunication) {
    event.start = std::max(event.start, communication_until_);
    event.end = std::max(event.end, event.start);
    communication_until_ = event.end;
  }
}

void TraceRecorder::SampleMemory(double time, int64_t held) {
  if (!on_) return;
  double bytes = static_cast<double>(held);
  most_bytes_ = std::max(most_bytes_, bytes);
  if (std::abs(bytes - sampled_bytes_) * kMemorySteps <= most_bytes_) return;
  sampled_bytes_ = bytes;
  trace_.counters.push_back({device_, "memory", time - origin_, bytes});
}

void TraceRecorder::UseDeviceTimes(double step_start, const std::vector<double>& marks) {
  if (!on_) return;
  for (size_t i = 0; i + 1 < marks.size(); ++i) {
    TraceEvent& event = trace_.events[first_event_ + i];
    event.start = step_start - origin_ + marks[i];
    event.end = step_start - origin_ + marks[i + 1];
  }
}

}  // namespace heddle
