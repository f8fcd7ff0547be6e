// Many jobs on few devices, without devices: the shard runs of jobs in the order that a policy gives, as events.
//
//   FleetResult result = SimulateFleet(jobs, {.devices = 8, .host_bandwidth = 12e9}, *FindPolicy("lrtf"));
//   result.makespan, result.finished[job], result.utilisation()
//
// A device has a compute stream and one copy stream to the host. As a run begins, the copy stream brings out what the
// run before left (first what other devices wait for), then in what the policy says comes next:
//
//   compute   |  F3 of a  |  F1 of b  |  F2 of b  |
//   copy      | b1 in     |a3 out b2 in|b1 out ...      a3 is unchanged: only the inputs of its blocks go out
//
// A shard that runs again next stays. What passes between shards of a job stays on the device if the next run is there.
// A device without work takes a job that is promised to another one but has not begun there.
//
// Deterministic. O(runs of all steps x jobs).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "fleet/job_work.h"
#include "fleet/policy.h"

namespace heddle {

struct FleetDevices {
  int64_t devices = 1;  // all alike
  double host_bandwidth =
      0;  // bytes per second between a device and the host; 0: copies take no time
  double host_latency = 0;       // of a copy
  bool double_buffering = true;  // false: a run is fetched when the one before has ended
  double until = std::numeric_limits<double>::infinity();  // from then on no run begins
};

// A device is at work on runs of one job, without a pause.
struct FleetSpan {
  int device = 0;
  int job = 0;
  double begin = 0, end = 0;
  bool operator==(const FleetSpan&) const = default;
};

struct FleetResult {
  double makespan = 0;               // to the end of the last copy
  std::vector<double> finished;      // per job; 0 where it has not
  std::vector<double> remaining;     // per job: seconds of compute that were left at the end
  std::vector<double> busy;          // per device: seconds of compute
  double waited = 0;                 // device seconds in which a job was there and a copy was not
  int64_t fetched = 0, evicted = 0;  // bytes
  int64_t runs = 0, moves = 0;       // of these, on another device than the one before
  std::vector<FleetSpan> spans;      // in the order they began
  double utilisation() const;        // compute of all devices over their time
};

FleetResult SimulateFleet(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                          const PolicyDef& policy);

}  // namespace heddle
