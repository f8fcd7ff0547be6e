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
#include <functional>
#include <vector>

#include "fleet/dispatch.h"
#include "fleet/spase.h"

namespace heddle {

// A training job that a gang of devices runs: the seam to who trains.
class GangRunner {
 public:
  virtual ~GangRunner() = default;

  // Trains from where the job stands to its last step, on `devices` devices from `first` on, or until `stop` is set: then
  // it ends after the step it is in. A later call, on any devices, goes on from there. `on_step` is called for every
  // step, after which `stop` is looked at. Whatever it throws ends this job and no other.
  virtual void Run(int64_t first, int64_t devices, const std::atomic<bool>& stop,
                   const std::function<void(const StepRecord&)>& on_step) = 0;
};

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
