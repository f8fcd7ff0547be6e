// What the compute stream of a device does at every moment of the step: works, waits for communication that nothing
// hides, or idles. Reports and timetables are made from this.
#pragma once

#include <vector>

#include "sim/engine.h"

namespace heddle {

enum class SliceKind : uint8_t {
  kWork,     // a task of the device itself
  kExposed,  // what it waits for is moving: a collective, or a message
  kIdle,     // it waits for others' work
};

struct Slice {
  double start = 0, end = 0;
  SliceKind kind = SliceKind::kIdle;
  int task = -1;  // at work, or waiting to start; -1: the device waits for the end of the step
  bool message = false;  // exposed, and what moves is a message between stages
  bool operator==(const Slice&) const = default;
};

// From 0 to timeline.seconds, in order, without gaps; none of no length. O(n log n) in the tasks of the class.
//
// Before a task that could not start, the path back over its causes says what moved meanwhile: that is exposed, the
// rest idle. After its last task a device is exposed where the step ends with a communication of its own.
std::vector<Slice> ComputeStream(const Prepared& prepared, const Timeline& timeline,
                                 int device_class);

}  // namespace heddle
