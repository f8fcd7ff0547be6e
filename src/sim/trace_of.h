// A simulated step as a trace: the same events, by the same names, as the runtime measures.
//
//   computing        from start to end
//   collectives      from when the last member has come: waiting for it is no event
//   sends, receives  while their messages are under way
//
// Several collectives and messages can be under way at once, so communication has lanes (AssignLanes). Memory is a
// counter "memory" and one per kind, "memory: activations", thinned out (memory_over_time.h).
#pragma once

#include "program/trace.h"
#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {

struct TraceOptions {
  int64_t per_class = 1;  // devices of each class, the first of them
  size_t samples = 1000;  // of a device's memory; 0: none
};

// Of the program that `memory` is of. Events of a device are in the order of its list. The first device of a class stands for those that are left out
// (Trace::alike). Some 1 us per event.
Trace ToTrace(const MemoryModel& memory, const Prepared& prepared, const Timeline& timeline,
              const TraceOptions& options = {});

}  // namespace heddle
