// Inside schedule/: a list scheduler over F, B and W with bounds on what is in flight, one stage per device.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace heddle {

struct GreedyOptions {
  std::vector<int> in_flight;  // per device, at least 1: most micro-batches with F done and B not
  std::vector<int> weight_pending;  // per device, at least 1: with F done and W not
  bool forward_yields = false;      // no F that would end after the next B is known to arrive
  bool weight_yields = false;       // likewise no W
};

// Simulates the pipeline; a device that is free runs B if one has arrived, else F if one has and the bounds allow
// it, else W; micro-batches go in order. An arrival is known once the other device has begun the task.
// O(tasks x log devices).
Timetable GreedyTimetable(const PipelineShape& shape, const GreedyOptions& options);

}  // namespace heddle
