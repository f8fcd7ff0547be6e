// A real run of a fleet from beginning to end: jobs run in shards, then on several devices each if that ends earlier,
// with early stopping throughout. Training itself is behind JobRunner.
//
//   FleetDriver driver(prepared, runners, {.policy = *FindPolicy("lrtf"), .interrupted = &flag});
//   FleetRun run = driver.Run();
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fleet/dispatch.h"
#include "fleet/halving.h"
#include "fleet/prepared_fleet.h"
#include "program/job_runner.h"

namespace heddle {

struct FleetDriverOptions {
  const PolicyDef& policy;
  const std::atomic<bool>* interrupted = nullptr;  // when set, jobs stop after their current step
  // Called after every step and when a job has ended, by one thread at a time. May be null.
  std::function<void(const FleetRun& so_far)> on_step = nullptr;
  std::function<void(int job, const FleetRun& so_far)> on_end = nullptr;
};

class FleetDriver : private FleetObserver {
 public:
  // `jobs` are those of the fleet in their order. All arguments must outlive it.
  FleetDriver(const PreparedFleet& fleet, std::vector<JobRunner*> jobs, FleetDriverOptions options);

  // May be called once.
  FleetRun Run();

 private:
  void OnStep(int job, const StepRecord& record, const FleetRun& so_far,
              DispatchControl& control) override;
  void OnEnd(int job, const FleetRun& so_far, DispatchControl& control) override;

  int64_t StepsOf(size_t job) const { return fleet_.works()[job].steps; }
  // The work that is left of a job after `steps` steps, by predicted times.
  JobWork Left(size_t job, int64_t steps) const;
  // True if jobs should leave their shards now, not later or never, by measured times.
  bool ShouldLeaveShards(const FleetRun& so_far);
  FleetRun RunShards();
  void RunSeveral(FleetRun& run);

  HalvingVerdict Verdict(size_t job) const;
  void StartHalving();
  void Apply(DispatchControl& control) const;
  bool Interrupted() const { return options_.interrupted != nullptr && *options_.interrupted; }

  const PreparedFleet& fleet_;
  std::vector<JobRunner*> jobs_;
  FleetDriverOptions options_;
  std::optional<Halving> halving_;
  std::atomic<bool> stopped_ = false;  // set to stop the shards
  bool goes_wide_ = false;
};

}  // namespace heddle
