// The arguments of `heddle fleet`, for real and simulated runs.
#pragma once

#include <cstdint>
#include <string>

#include "cli/phases.h"
#include "fleet/policy.h"
#include "fleet/prepared_fleet.h"

namespace heddle {

struct FleetArgs {
  FleetOptions options;
  std::string policy{AllPolicies().front().name};
  std::string memory_limit;
  bool simulate = false, no_double_buffering = false, json = false;
  // For real runs only.
  std::string device = "cpu", checkpoint;
  int64_t threads = 0, every = 0;
  bool override_settings = false;  // resume from checkpoints of jobs with different settings
  bool deterministic = false;
};

// The policy named by --policy. Throws InputError if there is none of that name.
const PolicyDef& PolicyOf(const FleetArgs& args);
FleetSpec ReadJobs(const FleetArgs& args);

// Errors in the model of a job begin with the place of the job in its file.
PreparedFleet PrepareFleet(const FleetOptions& options, const FleetSpec& spec,
                           const FleetMachine& machine, Phases& phases);

}  // namespace heddle
