// The work of a job for devices: its model is cut into shards, and a training step is a list of shard runs.
//
// A shard is a sequence of consecutive blocks that fits on a device beside the buffer for the next shard. With k shards
// a step is
//
//   F0 F1 ... F(k-2)  FB(k-1)  B(k-2) ... B1 B0
//
// The last shard runs forward and backward at once and keeps its activations. The other shards recompute each block
// from its input, which is on the host in between. A backward run updates the weights of its shard. The shard runs of a
// job follow each other, so at most one is in flight, and any device may run the next one (Hydra, arXiv 2110.08633).
//
// Between shard runs everything is on the host: weights, optimizer state, inputs of blocks, and the activations and
// gradients between shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/spilling/shards.h"

namespace heddle {

struct ShardRun {
  int shard = 0;
  bool backward = false;    // and updates weights
  double seconds = 0;       // of compute
  int64_t fetch_bytes = 0;  // weights; for a backward run also optimizer state and inputs of blocks
  int64_t evict_bytes =
      0;  // of a backward run weights and optimizer state, of a forward run inputs of blocks
  int64_t boundary_in = 0;   // copied from the previous run if that was on another device
  int64_t boundary_out = 0;  // copied to the next run if that is on another device
  int64_t peak_bytes = 0;    // on the device, without the buffer
  bool operator==(const ShardRun&) const = default;
};

struct JobWork {
  std::string name = {};
  std::vector<ShardRun> runs = {};  // of one step, in order; at least one
  int64_t steps = 1;
  int64_t priority = 0;    // jobs with a higher one run first
  int64_t host_bytes = 0;  // weights, state, inputs of blocks and boundaries of the whole model
  bool operator==(const JobWork&) const = default;
};

// Seconds of compute per step.
double StepSeconds(const JobWork& job);
double TotalSeconds(const JobWork& job);

// A lower bound on the makespan of jobs on equal devices, because only one run of a job and one run per device are
// active at a time.
struct FleetBound {
  double longest_job = 0;  // the time of the longest job alone
  double work = 0;         // the work of all jobs / devices
  double seconds() const { return longest_job > work ? longest_job : work; }
};
FleetBound BoundOf(const std::vector<JobWork>& jobs, int64_t devices);

// The shard runs of a model that is cut at `ends` (search/spilling/shards.h).
JobWork WorkOf(const ModelCosts& costs, const std::vector<int>& ends);

}  // namespace heddle
