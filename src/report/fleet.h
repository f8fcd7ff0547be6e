// Many jobs on few devices: what `heddle fleet --simulate` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "fleet/prepared_fleet.h"
#include "fleet/simulate.h"
#include "fleet/spase.h"

namespace heddle {

struct FleetReport {
  struct Job {
    std::string name = {};
    int64_t steps = 0;
    std::vector<int> shard_ends = {};            // in blocks of the model
    double step_seconds = 0, total_seconds = 0;  // of compute
    double finished = 0;
    int64_t peak_bytes = 0, host_bytes = 0;
    int64_t kept_blocks = 0, recomputed_blocks = 0;  // of the shards before the last one
  };
  std::string device, policy, policy_about;
  FleetDevices devices;
  std::vector<Job> jobs;
  FleetBound bound;    // if each job has at most one shard running at a time
  FleetResult result;  // jobs may get several devices each from some time on, if allowed and faster
  // If jobs may have several devices each.
  struct Several {
    double from = 0;     // when jobs get several devices; equal to the makespan: never
    double bound = 0;    // lower bound on any schedule of shards and multi-device plans
    double without = 0;  // makespan with shards only
    std::vector<SpasePiece> pieces;
  };
  std::optional<Several> several;
  double lower_bound() const { return several ? several->bound : bound.seconds(); }
  int64_t device_bytes = 0;  // for shards and their buffer
  int64_t buffer_bytes = 0;
  int64_t host_limit = 0;  // 0: not known
  bool early_stopping = false;
};

// Simulates the fleet under a policy.
FleetReport ReportOf(const PreparedFleet& fleet, const PolicyDef& policy);

// Jobs over time, a row per device: 'a' is the first job of the table. Columns are equal intervals of time. The
// character of a column is the job that uses most of its interval; '.' means idle.
//
//   d0  aaabbbbbbcc..
//   d1  ddddddbbbbbbb
std::string FleetTimetable(const FleetResult& result, size_t columns = 80, size_t rows = 16);

// The letter of a job: a-z, A-Z, 0-9, and # for all others.
char LetterOf(size_t job);

std::string Screen(const FleetReport& report);
Json ToJson(const FleetReport& report);

}  // namespace heddle
