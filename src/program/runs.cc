#include "program/runs.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/integers.h"

namespace heddle {
namespace {

const ScheduleDef& ScheduleOf(const Plan& plan) {
  const ScheduleDef* schedule = FindSchedule(plan.schedule);
  if (schedule != nullptr) return *schedule;
  std::string names;
  for (const ScheduleDef& def : AllSchedules())
    names += (names.empty() ? "" : ", ") + std::string(def.name);
  ThrowInput("there is no schedule '{}'; there are {}", plan.schedule, names);
}

// The tasks of all devices in the order in which they start.
std::vector<Task> InOneOrder(const Timetable& timetable, const PipelineShape& shape) {
  Execution execution = Execute(timetable, shape);
  std::vector<std::tuple<double, double, size_t, size_t>> order;  // start, end, device, place
  for (size_t d = 0; d < timetable.size(); ++d) {
    for (size_t t = 0; t < timetable[d].size(); ++t) {
      order.push_back({execution.start[d][t], execution.end[d][t], d, t});
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<Task> tasks;
  for (const auto& [start, end, d, t] : order) tasks.push_back(timetable[d][t]);
  return tasks;
}

}  // namespace

std::vector<Run> FindRuns(const Plan& plan) {
  IdVector<DeviceId, std::vector<StageId>> stages(ToSize(DeviceCount(plan)));
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (int64_t device : DevicesOf(plan.stages[s].mesh))
      stages[DeviceId::FromIndex(ToSize(device))].push_back(StageId::FromIndex(s));
  }
  std::map<std::vector<StageId>, std::vector<int64_t>> by_stages;
  auto at = by_stages.end();
  for (DeviceId device : stages.ids()) {
    if (at == by_stages.end() || at->first != stages[device]) {
      at = by_stages.try_emplace(stages[device]).first;
    }
    at->second.push_back(device.value);
  }
  std::vector<Run> runs;
  for (auto& [of, devices] : by_stages) {
    if (!of.empty()) runs.push_back({std::move(devices), of});
  }
  auto idle = by_stages.find({});
  if (idle != by_stages.end()) runs.push_back({std::move(idle->second), {}});
  return runs;
}

bool IsPipeline(const std::vector<Run>& runs, size_t stages) {
  size_t busy = runs.size() - (runs.back().stages.empty() ? 1 : 0);
  size_t held = 0;
  for (size_t r = 0; r < busy; ++r) {
    for (StageId s : runs[r].stages) {
      if (s.index() % busy != r) return false;
    }
    held += runs[r].stages.size();
  }
  return held == stages && stages % busy == 0;
}

Timetable TimetableOf(const Plan& plan, const std::vector<Run>& runs) {
  const ScheduleDef& schedule = ScheduleOf(plan);
  bool pipeline =
      IsPipeline(runs, plan.stages.size()) && std::ssize(runs.front().stages) == plan.chunks;
  PipelineShape shape;
  shape.chunks = pipeline ? plan.chunks : 1;
  shape.devices = ToInt(plan.stages.size()) / shape.chunks;
  shape.microbatches = ToInt(plan.microbatches);
  for (const Stage& stage : plan.stages) {
    shape.times.push_back({stage.times.forward, stage.times.backward, stage.times.weight});
  }
  Timetable made = MakeTimetable(schedule, shape);
  made.resize(std::max(made.size(), runs.size()));  // those without a stage do nothing
  if (pipeline) return made;
  std::vector<Task> tasks = InOneOrder(made, shape);
  Timetable timetable(runs.size());
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const Task& task : tasks) {
      const std::vector<StageId>& own = runs[r].stages;
      if (std::find(own.begin(), own.end(), StageId{task.stage}) != own.end())
        timetable[r].push_back(task);
    }
  }
  return timetable;
}

}  // namespace heddle
