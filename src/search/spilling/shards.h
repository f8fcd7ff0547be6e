// Cuts a model into shards: runs of blocks, each of which fits a device beside a buffer for the
// next shard.
//
//   std::optional<std::vector<int>> ends = CutIntoShards(costs, {.memory = cap - buffer, .buffer = buffer});
//
// The cut is exactly optimal by the numbers of ModelCosts: fewest shards; among these, the longest
// shard (forward and backward together) within `balance` of the shortest possible; among these,
// fewest bytes passing the cuts; then the earliest cuts. Dynamic programming over cuts in O(units^2
// x shards), less where few units fit at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program/program.h"
#include "search/spilling/model_costs.h"

namespace heddle {

// Units [first, end) as a shard. The last shard of a model runs forward and backward in one visit.
struct ShardCost {
  double forward = 0, backward = 0;  // seconds; for the last shard all in backward
  int64_t weights = 0, gradients = 0, state = 0, copied = 0;
  int64_t kept = 0;  // bytes on the host between forward and backward; 0 for the last shard
  int64_t forward_peak = 0, backward_peak = 0;    // bytes on the device
  int64_t forward_fetch = 0, backward_fetch = 0;  // including what the run before produces
  double seconds() const { return forward + backward; }
  int64_t peak() const { return forward_peak > backward_peak ? forward_peak : backward_peak; }
  int64_t fetch() const { return forward_fetch > backward_fetch ? forward_fetch : backward_fetch; }
};
// O(parameters + units of the shard).
ShardCost CostOfShard(const ModelCosts& costs, int first, int end);

struct ShardLimits {
  int64_t memory = 0;  // of a device, for the running shard
  int64_t buffer = 0;  // for the next shard
  double balance = 0.05;
  bool any_unit = false;  // a single unit may be larger than the buffer
};

// Where shards end, in ascending order and in units; the last is the number of units. Nothing where
// some unit cannot fit.
std::optional<std::vector<int>> CutIntoShards(const ModelCosts& costs, const ShardLimits& limits);

// One buffer size for all jobs of a fleet, and the shards of each job. The buffer is the share of
// memory, in 32nds, with the fewest shards in total, and among these the smallest. If there is
// none, the last fields say what is missing.
struct FleetShards {
  int64_t buffer = 0;
  std::vector<std::vector<int>> ends;  // per model; empty: none fits
  bool feasible = false;
  int worst = -1;      // the model that lacks most
  int64_t needed = 0;  // bytes of memory with which its largest unit would fit
};
FleetShards CutFleet(const std::vector<const ModelCosts*>& models, int64_t memory);

// The most bytes that a job in shards has on its device during each visit, from its instruction
// list (Offload::kAll, one device). Shard costs do not include the update of a whole shard. Values
// that a visit does not touch are on the host.
std::vector<int64_t> ShardPeaks(const Program& program, const MemoryHabits& habits = {});

}  // namespace heddle
