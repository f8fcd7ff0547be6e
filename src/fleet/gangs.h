// Jobs on several devices each, for real: a schedule of SPASE (spase.h), each of its pieces run by a thread that drives
// the job on its devices.
//
//   RunGangs(jobs, {.devices = 8, .switch_seconds = 5}, run, observer);      goes on with `run`, as Dispatch left it
//
// Steps that were measured take the place of what was predicted. Whenever a job ends what is left is solved anew, and
// taken where it ends sooner by more than a threshold, switches paid: jobs whose place changes then stop after the step
// they are in and go on elsewhere. A job that throws ends alone.
//
// Deterministic in what jobs compute, not in which devices run what when.
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
  JobCurve step = {};   // seconds of a step on 1, 2, 4, ... devices, as predicted
  bool paused = false;  // until an observer resumes it
};

struct GangOptions {
  int64_t devices = 1;
  double switch_seconds = 0;
  const std::atomic<bool>* stop = nullptr;  // set: jobs end after the step they are in
  ResolveOptions resolve = {};
};

// Jobs that `run` says are over are left alone.
void RunGangs(const std::vector<GangJob>& jobs, const GangOptions& options, FleetRun& run,
              FleetObserver* observer = nullptr);

}  // namespace heddle
