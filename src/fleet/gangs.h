// Real execution of jobs on several devices each: a thread per piece of a SPASE schedule (spase.h) drives the job on
// its devices.
//
//   RunGangs(jobs, {.devices = 8, .switch_seconds = 5}, run, observer);      continues `run` from the end of Dispatch
//
// Measured step times replace predicted ones. Whenever a job ends, the remaining problem is solved again. The new
// schedule is used if it ends earlier by more than a threshold, including the time of switches: jobs whose devices
// change stop after their current step and continue there. A job that throws ends without affecting the others.
//
// Results of jobs are deterministic; the assignment of jobs to devices and times is not.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "fleet/dispatch.h"
#include "fleet/spase.h"
#include "program/gang_runner.h"

namespace heddle {

struct GangJob {
  GangRunner* runner = nullptr;
  int64_t steps = 0;    // of the whole job
  JobCurve step = {};   // predicted seconds of a step on 1, 2, 4, ... devices
  bool paused = false;  // until an observer resumes it
};

struct GangOptions {
  int64_t devices = 1;
  double switch_seconds = 0;
  const std::atomic<bool>* stop = nullptr;  // when set, jobs stop after their current step
  ResolveOptions resolve = {};
};

// Jobs that have ended according to `run` are skipped.
void RunGangs(const std::vector<GangJob>& jobs, const GangOptions& options, FleetRun& run,
              FleetObserver* observer = nullptr);

}  // namespace heddle
