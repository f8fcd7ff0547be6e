// What `heddle fleet` is given, for real or simulated.
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
  // Of real runs alone.
  std::string device = "cpu", checkpoint;
  int64_t threads = 0, every = 0;
  bool override_settings = false;  // go on from checkpoints of jobs with other settings
  bool deterministic = false;
};

// Throws InputError for one that is not there.
const PolicyDef& PolicyOf(const FleetArgs& args);
FleetSpec ReadJobs(const FleetArgs& args);

// What errors of the job's model begin with is the place of the job in its file.
PreparedFleet PrepareFleet(const FleetOptions& options, const FleetSpec& spec,
                           const FleetMachine& machine, Phases& phases);

}  // namespace heddle
