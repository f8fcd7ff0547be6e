// Simulates many jobs on few devices: a discrete-event simulation of shard runs in the order of a policy.
//
//   FleetResult result = SimulateFleet(jobs, {.devices = 8, .host_bandwidth = 12e9}, *FindPolicy("lrtf"));
//   result.makespan, result.finished[job], result.utilisation()
//
// A device has a compute stream and one copy stream to the host. When a run begins, the copy stream evicts the previous
// shard (first the values that other devices wait for), then fetches the shard that the policy chooses next:
//
//   compute   |  F3 of a  |  F1 of b  |  F2 of b  |
//   copy      | b1 in     |a3 out b2 in|b1 out ...      a3 is unchanged: only the inputs of its blocks go out
//
// A shard that runs again next stays on the device. Activations and gradients between shards of a job stay there if the
// next run is on the same device. An idle device takes a job that is promised to another one but has not begun there.
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
  bool double_buffering = true;  // false: a shard is fetched only after the previous run has ended
  double until = std::numeric_limits<double>::infinity();  // no run begins at or after this time
};

// An interval in which a device works on one job without a pause.
struct FleetSpan {
  int device = 0;
  int job = 0;
  double begin = 0, end = 0;
  bool operator==(const FleetSpan&) const = default;
};

struct FleetResult {
  double makespan = 0;               // to the end of the last copy
  std::vector<double> finished;      // of each job; 0: not finished
  std::vector<double> remaining;     // of each job: seconds of compute left at the end
  std::vector<double> busy;          // of each device: seconds of compute
  double waited = 0;                 // device seconds spent waiting for the copy of a chosen job
  int64_t fetched = 0, evicted = 0;  // bytes
  int64_t runs = 0,
          moves = 0;  // runs, and those on another device than the previous run of the job
  std::vector<FleetSpan> spans;  // in the order they began
  double utilisation() const;    // compute time of all devices / (devices x makespan)
};

FleetResult SimulateFleet(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                          const PolicyDef& policy);

}  // namespace heddle
