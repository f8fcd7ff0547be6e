// What happened when: the events of one or more steps on every device, predicted or measured. report/chrome_trace.h
// writes it for Perfetto.
//
// A track is a lane of a stream of a device: what is on it comes one after the other. Streams that do several things
// at once (communication, in the simulator) have several lanes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace heddle {

struct TraceEvent {
  int64_t device = 0;
  Stream stream = Stream::kCompute;
  std::string name;           // InstructionName
  std::string category;       // Category
  double start = 0, end = 0;  // seconds
  int lane = 0;
  bool operator==(const TraceEvent&) const = default;
};

// From `time` on the counter stands at `value`.
struct TraceCounter {
  int64_t device = 0;
  std::string name;  // "memory", "memory: weights"
  double time = 0;   // seconds
  double value = 0;  // bytes of memory
  bool operator==(const TraceCounter&) const = default;
};

struct Trace {
  std::vector<TraceEvent> events;
  std::vector<TraceCounter> counters;
  // Devices that stand for others too: of how many that do the same at the same time, themselves among them.
  std::map<int64_t, int64_t> alike;
  bool operator==(const Trace&) const = default;
};

// What Perfetto colours by: "forward", "backward", "recompute", "collective", "transfer", "local" (slices, sums,
// loads), "optimizer".
std::string Category(const Program& program, const Instruction& instruction);

// Everything wrong, one line each, at most 50: times must be finite and not negative, no event may end before it
// starts, and events of one track may touch but not overlap by more than 1 ns. O(n log n).
std::vector<std::string> Verify(const Trace& trace);

// Gives every event the first lane of its device and stream that is free at its start: events in the order of start,
// end and index. Tracks then do not overlap. Times must be finite. O(n log n + n x lanes).
void AssignLanes(Trace& trace);

// Orders events by device, stream, lane, start and end, and counters by device, name and time (both stable); where an
// event starts before the one before it on its track has ended (clocks that were read apart), it starts later: so
// that Verify finds no overlap. Times must be finite.
void ClipOverlaps(Trace& trace);

}  // namespace heddle
