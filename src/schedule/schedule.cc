#include "schedule/schedule.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "schedule/schedules.h"

namespace heddle {

std::string_view HalfName(Half half) {
  switch (half) {
    case Half::kF:
      return "F";
    case Half::kB:
      return "B";
    case Half::kW:
      return "W";
    case Half::kBW:
      return "BW";
  }
  return "?";
}

double Duration(const PipelineShape& shape, const Task& task) {
  const HalfTimes t = shape.times_of(task.stage);
  switch (task.half) {
    case Half::kF:
      return t.forward;
    case Half::kB:
      return t.backward;
    case Half::kW:
      return t.weight;
    case Half::kBW:
      return t.backward + t.weight;
  }
  return 0;
}

std::span<const ScheduleDef> AllSchedules() {
  static const ScheduleDef kAll[] = {
      GpipeSchedule(), OneFOneBSchedule(), InterleavedSchedule(), ZbH1Schedule(), ZbSchedule(),
  };
  return kAll;
}

const ScheduleDef* FindSchedule(std::string_view name) {
  for (const ScheduleDef& def : AllSchedules()) {
    if (def.name == name) return &def;
  }
  return nullptr;
}

namespace {

constexpr int64_t kMostForwards = int64_t{1} << 26;

void CheckCount(const ScheduleDef& def, std::string_view what, int count) {
  if (count < 1) ThrowInput("schedule {}: {} is {}, must be at least 1", def.name, what, count);
}

void CheckTime(const ScheduleDef& def, const std::string& what, double time) {
  if (!std::isfinite(time) || time < 0) {
    ThrowInput("schedule {}: {} is {}, must be finite and not negative", def.name, what, time);
  }
}

}  // namespace

void CheckShape(const ScheduleDef& def, const PipelineShape& shape) {
  CheckCount(def, "devices", shape.devices);
  CheckCount(def, "chunks", shape.chunks);
  CheckCount(def, "microbatches", shape.microbatches);
  if (shape.chunks > kMostForwards / shape.devices ||
      int64_t{shape.stages()} > kMostForwards / shape.microbatches) {
    ThrowInput("schedule {}: {} devices x {} chunks x {} microbatches are too many, at most {}",
               def.name, shape.devices, shape.chunks, shape.microbatches, kMostForwards);
  }
  if (shape.chunks > 1 && !def.takes_chunks) {
    std::vector<std::string_view> others;
    for (const ScheduleDef& other : AllSchedules()) {
      if (other.takes_chunks) others.push_back(other.name);
    }
    ThrowInput("schedule {}: chunks is {}, but it takes one stage per device; give 1, or choose {}",
               def.name, shape.chunks, fmt::join(others, " or "));
  }
  if (def.full_rounds && shape.microbatches % shape.devices != 0) {
    const int below = shape.microbatches / shape.devices * shape.devices;
    ThrowInput("schedule {}: microbatches is {}, must be a multiple of the {} devices; give {}",
               def.name, shape.microbatches, shape.devices,
               below > 0 ? fmt::format("{} or {}", below, below + shape.devices)
                         : fmt::format("{}", shape.devices));
  }
  if (!shape.times.empty() && shape.times.size() != size_t(shape.stages())) {
    ThrowInput("schedule {}: there are times for {} stages, must be {} (devices x chunks) or none",
               def.name, shape.times.size(), shape.stages());
  }
  for (size_t s = 0; s < shape.times.size(); ++s) {
    CheckTime(def, fmt::format("forward time of stage {}", s), shape.times[s].forward);
    CheckTime(def, fmt::format("backward time of stage {}", s), shape.times[s].backward);
    CheckTime(def, fmt::format("weight time of stage {}", s), shape.times[s].weight);
  }
  CheckTime(def, "transfer", shape.transfer);
  if (!shape.transfers.empty() && shape.transfers.size() != size_t(shape.devices)) {
    ThrowInput("schedule {}: there are transfers of {} devices, must be {} or none", def.name,
               shape.transfers.size(), shape.devices);
  }
  for (double transfer : shape.transfers) CheckTime(def, "transfer", transfer);
}

Timetable MakeTimetable(const ScheduleDef& def, const PipelineShape& shape) {
  CheckShape(def, shape);
  Timetable timetable = def.make(shape);
  const std::vector<std::string> broken = Verify(timetable, shape);
  HEDDLE_CHECK(broken.empty(), "schedule {}: {}", def.name, broken.front());
  return timetable;
}

}  // namespace heddle
