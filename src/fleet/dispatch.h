// Many jobs on few devices, for real: worker threads, one per device, run the visits of jobs in the order that a policy
// gives (policy.h, as the simulator does).
//
//   FleetRun run = Dispatch(jobs, {.devices = 2}, *FindPolicy("lrtf"), on_step);
//   run.seconds, run.jobs[j].losses, run.jobs[j].error
//
// Behind each worker a second thread copies: while a visit runs, what ran before leaves the device, then what the policy
// says comes next is brought in. A job that runs again next stays where it is. One visit of a job runs at a time.
//
// A job that throws ends alone. Deterministic in what jobs compute, not in which device runs what when.
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
  std::vector<double> visit_seconds = {};  // as predicted; what is measured takes their place
  bool paused = false;                     // until an observer resumes it
};

struct DispatchOptions {
  int devices = 1;
  bool double_buffering = true;
  const std::atomic<bool>* stop = nullptr;  // set: jobs stand still after the step they are in
};

// What a device did for a job, without a pause.
struct DispatchSpan {
  int device = 0;
  int job = 0;
  double begin = 0, end = 0;  // since the start
  int64_t devices = 1;        // that the job had together
};

struct DispatchedJob {
  int64_t step = 0;  // the next
  std::vector<StepRecord> records;
  double finished = 0;  // when, since the start; 0: it has not
  int device = -1;      // that runs it now, with others after it where they are several
  int64_t devices = 1;
  bool ended_early = false;
  std::string error;  // why it ended alone
  double remaining_seconds = 0;
};

struct FleetRun {
  double seconds = 0;
  std::vector<DispatchedJob> jobs;
  std::vector<double> busy;  // per device: in visits
  std::vector<DispatchSpan> spans;
  int64_t switches = 0;  // of jobs to other devices (gangs.h)
  double utilisation() const;
};

// What is to become of jobs, said by an observer; it holds from the end of the step they are in.
struct DispatchControl {
  virtual ~DispatchControl() = default;
  virtual void End(int job) = 0;
  virtual void Pause(int job) = 0;
  virtual void Resume(int job) = 0;
};

// Told by workers, one call at a time, what happens. Calls are to be short: others wait.
struct FleetObserver {
  virtual ~FleetObserver() = default;
  virtual void OnStep(int job, const StepRecord& record, const FleetRun& so_far,
                      DispatchControl& control) = 0;
  virtual void OnEnd(int job, const FleetRun& so_far, DispatchControl& control) = 0;
};

FleetRun Dispatch(const std::vector<DispatchJob>& jobs, const DispatchOptions& options,
                  const PolicyDef& policy, FleetObserver* observer = nullptr);

}  // namespace heddle
