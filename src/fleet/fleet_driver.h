// A fleet that runs for real, from its beginning to its end: jobs in shards, then on several devices each where that is
// sooner, and early stopping over both. Who trains is behind JobRunner.
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
  const std::atomic<bool>* interrupted =
      nullptr;  // set: jobs stand still after the step they are in
  // Called by one thread at a time: after a step, and when a job has ended. Null: nobody listens.
  std::function<void(const FleetRun& so_far)> on_step = nullptr;
  std::function<void(int job, const FleetRun& so_far)> on_end = nullptr;
};

class FleetDriver : private FleetObserver {
 public:
  // `jobs`: those of the fleet, in their order. All arguments outlive it.
  FleetDriver(const PreparedFleet& fleet, std::vector<JobRunner*> jobs, FleetDriverOptions options);

  // Once.
  FleetRun Run();

 private:
  void OnStep(int job, const StepRecord& record, const FleetRun& so_far,
              DispatchControl& control) override;
  void OnEnd(int job, const FleetRun& so_far, DispatchControl& control) override;

  int64_t StepsOf(size_t job) const { return fleet_.works()[job].steps; }
  // What is left of a job after so many steps, by predicted times.
  JobWork Left(size_t job, int64_t steps) const;
  // Is it better to leave shards now than later, or never? By the times that were measured.
  bool GoesWide(const FleetRun& so_far);
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
  std::atomic<bool> stopped_ = false;  // shards
  bool goes_wide_ = false;
};

}  // namespace heddle
