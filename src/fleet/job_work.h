// What a job asks of devices: its model cut into shards, and a training step as a list of shard runs.
//
// A shard is a run of a model's blocks that fits a device beside the buffer for the next one. With k shards a step is
//
//   F0 F1 ... F(k-2)  FB(k-1)  B(k-2) ... B1 B0
//
// The last shard goes forward and back at once and keeps what it needs; the others recompute each block from its input,
// which lives on the host in between. A backward run updates its shard. Runs of a job come one after the other, so at
// most one is in flight, and any device may take the next (Hydra, arXiv 2110.08633).
//
// All that is between runs lives on the host: weights, optimizer state, inputs of blocks, and what passes from one shard
// to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/spilling/shards.h"

namespace heddle {

struct ShardRun {
  int shard = 0;
  bool backward = false;    // and updates
  double seconds = 0;       // of compute
  int64_t fetch_bytes = 0;  // weights; of a backward run also state and the inputs of blocks
  int64_t evict_bytes =
      0;  // weights and state of a backward run, inputs of blocks of a forward run
  int64_t boundary_in = 0;   // what the run before gives, if that was on another device
  int64_t boundary_out = 0;  // what the run after reads, if that is on another device
  int64_t peak_bytes = 0;    // on the device, without the buffer
  bool operator==(const ShardRun&) const = default;
};

struct JobWork {
  std::string name = {};
  std::vector<ShardRun> runs = {};  // of one step, in order; at least one
  int64_t steps = 1;
  int64_t priority = 0;    // jobs of a higher one go first
  int64_t host_bytes = 0;  // weights, state, inputs of blocks and boundaries of the whole model
  bool operator==(const JobWork&) const = default;
};

// Seconds of compute.
double StepSeconds(const JobWork& job);
double TotalSeconds(const JobWork& job);

// No makespan of jobs on so many equal devices is shorter: one run of a job at a time, one run on a device at a time.
struct FleetBound {
  double longest_job = 0;  // all by itself
  double work = 0;         // of all jobs, over the devices
  double seconds() const { return longest_job > work ? longest_job : work; }
};
FleetBound BoundOf(const std::vector<JobWork>& jobs, int64_t devices);

// Those of a model that is cut so (search/spilling/shards.h).
JobWork WorkOf(const ModelCosts& costs, const std::vector<int>& ends);

}  // namespace heddle
