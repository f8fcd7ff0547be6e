// Which devices run the same stages, and in which order.
//
// In a pipeline stage i is on the devices of run i mod runs and on no others: the schedule's timetable has a row for
// each run. Where stages share some of their devices, or are on the same ones without being chunks of a pipeline, there
// is a run for every set of devices that are in the same stages; the timetable is that of a pipeline with each stage on
// devices of its own, put in the order of its starts, of which every run keeps what its stages do. All runs of a stage
// therefore do its tasks in one order.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "program/ids.h"
#include "schedule/schedule.h"

namespace heddle {

struct Run {
  std::vector<int64_t> devices;  // ascending
  std::vector<StageId> stages;
};

// In the order of their first stages; those without a stage last.
std::vector<Run> FindRuns(const Plan& plan);

// Is stage i on run i mod runs alone?
bool IsPipeline(const std::vector<Run>& runs, size_t stages);

// A row for each run. Throws InputError as MakeTimetable does, and for schedules that are not known.
Timetable TimetableOf(const Plan& plan, const std::vector<Run>& runs);

}  // namespace heddle
