// A simulated step as a trace, with the same events and names as the runtime measures.
//
//   computing        from start to end
//   collectives      from the arrival of the last member: waiting for members is not an event
//   sends, receives  while their messages are in progress
//
// Several collectives and messages can be in progress at once, so communication has lanes (AssignLanes). Memory is a
// counter "memory" and one counter per kind, "memory: activations", with fewer samples than events
// (memory_over_time.h).
#pragma once

#include "program/trace.h"
#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {

struct TraceOptions {
  int64_t per_class = 1;  // the number of devices of each class, from the first
  size_t samples = 1000;  // of a device's memory; 0: no counters
};

// The trace of the program that `memory` belongs to. Events of a device are in the order of its list. The first device
// of a class stands for those that are left out (Trace::alike). Takes about 1 us per event.
Trace ToTrace(const MemoryModel& memory, const Prepared& prepared, const Timeline& timeline,
              const TraceOptions& options = {});

}  // namespace heddle
