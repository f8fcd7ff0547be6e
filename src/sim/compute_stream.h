// What the compute stream of a device does at every moment of the step: it works, waits for exposed communication, or
// idles. Reports and timetables use this.
#pragma once

#include <vector>

#include "sim/engine.h"

namespace heddle {

enum class SliceKind : uint8_t {
  kWork,     // a task of the device itself
  kExposed,  // a collective or message that it waits for is in progress
  kIdle,     // it waits for the work of other devices
};

struct Slice {
  double start = 0, end = 0;
  SliceKind kind = SliceKind::kIdle;
  // The task that runs or waits to start; -1: the device waits for the end of the step.
  int task = -1;
  bool message = false;  // exposed because of a message between stages
  bool operator==(const Slice&) const = default;
};

// Slices from 0 to timeline.seconds, in order and without gaps. Every slice has a positive length. O(n log n) in the
// tasks of the class.
//
// Where a task could not start at once, the chain of its causes tells which communication was in progress meanwhile.
// That time is exposed; the rest is idle. After its last task a device is exposed where the step ends with
// communication of its own.
std::vector<Slice> ComputeStream(const Prepared& prepared, const Timeline& timeline,
                                 int device_class);

}  // namespace heddle
