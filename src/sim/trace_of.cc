#include "sim/trace_of.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "program/text.h"
#include "sim/memory_over_time.h"

namespace heddle {
namespace {

class EventTracer {
 public:
  EventTracer(const Program& program, const Prepared& prepared, const Timeline& timeline)
      : program_(program), in_(prepared), at_(timeline) {
    for (const DeviceProgram& run : program.runs) {
      std::vector<int> sends(program.transfers.size() * static_cast<size_t>(program.microbatches),
                             -1);
      for (size_t i = 0; i < run.instructions.size(); ++i) {
        const Instruction& at = run.instructions[i];
        if (at.op == Opcode::kSend) sends[SlotOf(at)] = static_cast<int>(i);
      }
      send_task_.push_back(std::move(sends));
    }
  }

  std::vector<TraceEvent> EventsOf(size_t c) const {
    const DeviceClass& of = in_.classes.devices[c];
    const std::vector<Instruction>& instructions =
        program_.runs[static_cast<size_t>(of.run)].instructions;
    std::vector<TraceEvent> events(instructions.size());
    for (size_t t = 0; t < instructions.size(); ++t) {
      const Instruction& at = instructions[t];
      const TaskTimes& when = at_.times[c][t];
      auto [start, end] =
          at.op == Opcode::kRecv ? FlightTo(c, at, when) : std::pair(when.start, when.end);
      events[t] = {of.device, at.stream, InstructionName(program_, at), Category(program_, at),
                   start,     end};
    }
    return events;
  }

 private:
  size_t SlotOf(const Instruction& at) const {
    return static_cast<size_t>(at.transfer().value * program_.microbatches + at.microbatch);
  }

  // The time from the departure of the first message to the arrival of the last, but at most until the receive could
  // end.
  std::pair<double, double> FlightTo(size_t c, const Instruction& at, const TaskTimes& when) const {
    double start = std::numeric_limits<double>::infinity(), end = 0;
    for (int m : in_.classes.receives[c][at.transfer()]) {
      size_t sender = static_cast<size_t>(in_.classes.messages[static_cast<size_t>(m)].sender);
      size_t run = static_cast<size_t>(in_.classes.devices[sender].run);
      const TaskTimes& sent = at_.times[sender][static_cast<size_t>(send_task_[run][SlotOf(at)])];
      start = std::min(start, sent.start);
      end = std::max(end, sent.end);
    }
    end = std::min(end, when.end);
    if (start > end) return {when.end, when.end};
    return {start, end};
  }

  const Program& program_;
  const Prepared& in_;
  const Timeline& at_;
  std::vector<std::vector<int>> send_task_;  // per run, by transfer and micro-batch
};

// Adds a counter only where its value changes.
void AddCounters(const std::vector<MemorySample>& samples, int64_t device,
                 std::vector<TraceCounter>& counters) {
  using Field = int64_t MemoryKinds::*;
  constexpr std::array<Field, kMemoryKindNames.size()> kFields = {
      &MemoryKinds::weights, &MemoryKinds::gradients, &MemoryKinds::optimizer,
      &MemoryKinds::activations, &MemoryKinds::buffers};
  auto add = [&](const std::string& name, auto value_of) {
    int64_t last = -1;
    for (const MemorySample& sample : samples) {
      int64_t value = value_of(sample.kinds);
      if (value == last) continue;
      counters.push_back({device, name, sample.time, static_cast<double>(value)});
      last = value;
    }
  };
  add("memory", [](const MemoryKinds& kinds) { return kinds.total(); });
  for (size_t k = 0; k < kFields.size(); ++k) {
    add("memory: " + std::string(kMemoryKindNames[k]),
        [&](const MemoryKinds& kinds) { return kinds.*kFields[k]; });
  }
}

}  // namespace

Trace ToTrace(const MemoryModel& memory, const Prepared& prepared, const Timeline& timeline,
              const TraceOptions& options) {
  const Classes& classes = prepared.classes;
  std::vector<std::vector<int64_t>> shown(classes.devices.size());
  for (size_t d = 0; d < classes.class_of.size(); ++d) {
    std::vector<int64_t>& devices = shown[static_cast<size_t>(classes.class_of[d])];
    if (static_cast<int64_t>(devices.size()) < std::max<int64_t>(options.per_class, 1)) {
      devices.push_back(static_cast<int64_t>(d));
    }
  }
  EventTracer tracer(memory.program(), prepared, timeline);
  Trace trace;
  for (size_t c = 0; c < shown.size(); ++c) {
    Trace one;
    one.events = tracer.EventsOf(c);
    AssignLanes(one);
    std::vector<MemorySample> samples;
    if (options.samples > 0) {
      samples = MemoryOverTime(memory, prepared, timeline, shown[c][0], options.samples);
    }
    trace.alike[shown[c][0]] = classes.devices[c].count - static_cast<int64_t>(shown[c].size()) + 1;
    for (int64_t device : shown[c]) {
      for (TraceEvent& event : one.events) event.device = device;
      bool last = device == shown[c].back();
      if (last) {
        std::move(one.events.begin(), one.events.end(), std::back_inserter(trace.events));
      } else {
        trace.events.insert(trace.events.end(), one.events.begin(), one.events.end());
      }
      AddCounters(samples, device, trace.counters);
    }
  }
  return trace;
}

}  // namespace heddle
