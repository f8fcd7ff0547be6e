// Pipeline schedules: in which order each device of a pipeline runs the halves of its stages. Pure functions of
// a PipelineShape; nothing here knows of ranks, tensors or links.
//
//   const ScheduleDef* def = FindSchedule("1f1b");                       // nullptr: no such schedule
//   PipelineShape shape{.devices = 2, .microbatches = 3};
//   Timetable timetable = MakeTimetable(*def, shape);
//   Picture(timetable, shape):      d0  F0  F1  .   .   BW0---- F2  BW1---- .   BW2----
//                                   d1  .   F0  BW0---- F1  BW1---- F2  BW2----
//
// Deterministic, no shared state, any thread. Every function costs O(tasks); making zb-h1 or zb costs
// O(tasks x log devices) for each of up to ten variants.
//
// A new schedule is one file with a function that returns its ScheduleDef, declared in schedules.h and listed in
// schedule.cc. Its `make` gets a shape that passes CheckShape and must return a timetable that passes Verify, whose
// Execution is never shorter than `lower_bound` and never has more in flight than the stated peaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace heddle {

// Forward; gradients of activations; gradients of parameters; both at once.
enum class Half : uint8_t { kF, kB, kW, kBW };

std::string_view HalfName(Half half);  // F, B, W, BW

struct Task {
  Half half = Half::kF;
  int stage = 0;
  int microbatch = 0;
  bool operator==(const Task&) const = default;
};

// A pipeline of devices x chunks stages; stage c*devices+d is chunk c of device d.
struct PipelineShape {
  int devices = 1;
  int chunks = 1;
  int microbatches = 1;
  std::vector<HalfTimes> times = {};  // per stage; empty: all 1
  double transfer = 0;                // from a stage to the next where the device differs
  // Where these differ: from each device to the next, the last one's to the first. Empty: all `transfer`.
  std::vector<double> transfers = {};

  int stages() const { return devices * chunks; }
  int device_of(int stage) const { return stage % devices; }
  double transfer_after(int stage) const {
    if (devices == 1) return 0;
    return transfers.empty() ? transfer : transfers[static_cast<size_t>(device_of(stage))];
  }
  HalfTimes times_of(int stage) const {
    return times.empty() ? HalfTimes{} : times[static_cast<size_t>(stage)];
  }
};

// BW takes backward + weight.
double Duration(const PipelineShape& shape, const Task& task);

using Timetable = std::vector<std::vector<Task>>;  // per device, in order

struct ScheduleDef {
  std::string_view name;
  std::string_view summary;
  bool splits_backward;  // B and W rather than BW
  bool takes_chunks;     // chunks > 1
  bool full_rounds;      // microbatches must be a multiple of devices
  Timetable (*make)(const PipelineShape& shape);
  // The step takes no less; where `bubble` is known it takes just this.
  double (*lower_bound)(const PipelineShape& shape);
  // Execution::bubble in closed form; none where stages are unequal, transfers take time, or no form is known.
  std::optional<double> (*bubble)(const PipelineShape& shape);
  // What Execution::peak_in_flight and peak_weight_pending never exceed.
  int (*peak_in_flight)(const PipelineShape& shape, int device);
  int (*peak_weight_pending)(const PipelineShape& shape, int device);
};

std::span<const ScheduleDef> AllSchedules();  // gpipe, 1f1b, interleaved, zb-h1, zb
const ScheduleDef* FindSchedule(std::string_view name);

// Of the micro-batches that are in flight on a stage's device when its peak is first reached, those of the stage itself.
// Chunks of a device differ: micro-batches go in rounds of `devices` through chunk 0, then chunk 1, and so on.
int PeakInFlightOfStage(const ScheduleDef& def, const PipelineShape& shape, int stage);

// Throws InputError for a shape that is none (a count below 1, a time that is negative or not finite) or that
// this schedule does not take.
void CheckShape(const ScheduleDef& def, const PipelineShape& shape);

// CheckShape, make, Verify.
Timetable MakeTimetable(const ScheduleDef& def, const PipelineShape& shape);

// Everything broken, empty if nothing: every (stage, micro-batch) has F once and either BW once or B and W once
// each, on the stage's device; and the order can be executed: F of a stage after F of the one before, B (or BW)
// after its own F and B (or BW) of the stage after, W after its own B.
std::vector<std::string> Verify(const Timetable& timetable, const PipelineShape& shape);

struct Execution {
  std::vector<std::vector<double>> start, end;  // as the timetable
  double makespan = 0;
  double bubble = 0;         // idle share of devices x makespan
  std::vector<double> idle;  // per device, between its first task and its last
  std::vector<int>
      peak_in_flight;  // per device: most (stage, micro-batch) with F done and B (or BW) not
  std::vector<int> peak_weight_pending;  // likewise with F done and W (or BW) not
};

// Each device runs its list in order; a task starts once its device is free and what it needs has arrived. The
// timetable must pass Verify.
Execution Execute(const Timetable& timetable, const PipelineShape& shape);

// A row per device, a column per shortest task (at most some 1,000 columns; tasks too short for one are left
// out). `F3` is F of micro-batch 3, with chunks `F3.1` that of chunk 1; `.` is idle.
std::string Picture(const Timetable& timetable, const PipelineShape& shape);

}  // namespace heddle
