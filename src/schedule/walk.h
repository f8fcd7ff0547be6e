// Inside schedule/: runs a timetable as far as it goes.
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace heddle {

struct Walk {
  std::vector<std::vector<double>> start, end;  // per device, of the tasks that could be run
  // The first task of each device that could not be run lacks this; none where all were run.
  std::vector<std::optional<Task>> waits_for;
};

// Stages and micro-batches must be in range and tasks on their device. Each (stage, micro-batch) should have its
// halves once. O(tasks).
Walk WalkTimetable(const Timetable& timetable, const PipelineShape& shape);

}  // namespace heddle
