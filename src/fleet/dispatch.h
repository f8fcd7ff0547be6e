// Real execution of many jobs on few devices. A worker thread per device runs the visits of jobs in the order of a
// policy (policy.h), as the simulator does.
//
//   FleetRun run = Dispatch(jobs, {.devices = 2}, *FindPolicy("lrtf"), on_step);
//   run.seconds, run.jobs[j].losses, run.jobs[j].error
//
// Each worker has a second thread for copies. While a visit runs, it evicts the previous shard, then fetches the shard
// that the policy chooses next. A shard that runs again next stays on the device. Only one visit of a job runs at a
// time.
//
// A job that throws ends without affecting the others. Results of jobs are deterministic; the assignment of visits to
// devices and times is not.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "fleet/policy.h"
#include "program/shard_runner.h"

namespace heddle {

struct DispatchJob {
  ShardRunner* runner = nullptr;
  int64_t steps = 0;
  int64_t priority = 0;
  std::vector<double> visit_seconds = {};  // predicted; replaced by measurements
  bool paused = false;                     // until an observer resumes it
};

struct DispatchOptions {
  int devices = 1;
  bool double_buffering = true;
  const std::atomic<bool>* stop = nullptr;  // when set, jobs stop after their current step
};

// An interval in which a device worked for one job without a pause.
struct DispatchSpan {
  int device = 0;
  int job = 0;
  double begin = 0, end = 0;  // seconds since the start
  int64_t devices = 1;        // number of devices that the job had
};

struct DispatchedJob {
  int64_t step = 0;  // the next step
  std::vector<StepRecord> records;
  double finished = 0;  // seconds since the start; 0: not finished
  int device = -1;      // the first of the devices that run it now
  int64_t devices = 1;
  bool ended_early = false;
  std::string error;  // why it failed
  double remaining_seconds = 0;
};

struct FleetRun {
  double seconds = 0;
  std::vector<DispatchedJob> jobs;
  std::vector<double> busy;  // of each device: seconds in visits
  std::vector<DispatchSpan> spans;
  int64_t switches = 0;  // moves of jobs to other devices (gangs.h)
  double utilisation() const;
};

// What an observer decides about jobs. A decision takes effect at the end of the current step.
struct DispatchControl {
  virtual ~DispatchControl() = default;
  virtual void End(int job) = 0;
  virtual void Pause(int job) = 0;
  virtual void Resume(int job) = 0;
};

// Workers call it, one at a time, after every event. Calls must be short because other workers wait.
struct FleetObserver {
  virtual ~FleetObserver() = default;
  virtual void OnStep(int job, const StepRecord& record, const FleetRun& so_far,
                      DispatchControl& control) = 0;
  virtual void OnEnd(int job, const FleetRun& so_far, DispatchControl& control) = 0;
};

FleetRun Dispatch(const std::vector<DispatchJob>& jobs, const DispatchOptions& options,
                  const PolicyDef& policy, FleetObserver* observer = nullptr);

}  // namespace heddle
