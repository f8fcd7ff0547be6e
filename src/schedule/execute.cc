#include <algorithm>
#include <utility>

#include "base/check.h"
#include "schedule/schedule.h"
#include "schedule/walk.h"

namespace heddle {
namespace {

struct Peaks {
  int in_flight = 0;
  int weight_pending = 0;
};

Peaks PeaksOf(const std::vector<Task>& tasks) {
  Peaks now, peak;
  for (const Task& task : tasks) {
    if (task.half == Half::kF) {
      peak.in_flight = std::max(peak.in_flight, ++now.in_flight);
      peak.weight_pending = std::max(peak.weight_pending, ++now.weight_pending);
    }
    if (task.half == Half::kB || task.half == Half::kBW) --now.in_flight;
    if (task.half == Half::kW || task.half == Half::kBW) --now.weight_pending;
  }
  return peak;
}

}  // namespace

Execution Execute(const Timetable& timetable, const PipelineShape& shape) {
  Walk walk = WalkTimetable(timetable, shape);
  Execution run;
  double busy_in_all = 0;
  for (size_t d = 0; d < timetable.size(); ++d) {
    const std::vector<Task>& tasks = timetable[d];
    HEDDLE_CHECK_EQ(walk.end[d].size(), tasks.size());
    double busy = 0;
    for (const Task& task : tasks) busy += Duration(shape, task);
    busy_in_all += busy;
    const double span = tasks.empty() ? 0 : walk.end[d].back() - walk.start[d].front();
    run.idle.push_back(std::max(0.0, span - busy));
    if (!tasks.empty()) run.makespan = std::max(run.makespan, walk.end[d].back());
    const Peaks peaks = PeaksOf(tasks);
    run.peak_in_flight.push_back(peaks.in_flight);
    run.peak_weight_pending.push_back(peaks.weight_pending);
  }
  const double offered = shape.devices * run.makespan;
  run.bubble = offered > 0 ? std::max(0.0, 1 - busy_in_all / offered) : 0;
  run.start = std::move(walk.start);
  run.end = std::move(walk.end);
  return run;
}

}  // namespace heddle
