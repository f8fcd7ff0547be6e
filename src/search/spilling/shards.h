// Cuts a model into shards: runs of blocks, each of which fits a device beside a reserved buffer for the next.
//
//   std::optional<std::vector<int>> ends = CutIntoShards(costs, {.memory = cap - buffer, .buffer = buffer});
//
// Of all ways to cut, exactly by the numbers of ModelCosts: those of fewest shards; of these the ones whose longest shard
// (forward and backward together) is within `balance` of the shortest there can be; of these the one with fewest bytes
// passing its cuts; and then the earliest cuts. Dynamic programming over cuts, O(units^2 x shards), less where few
// fit at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program/program.h"
#include "search/spilling/model_costs.h"

namespace heddle {

// Units [first, end) as a shard. The last shard of a model runs forward and backward at once.
struct ShardCost {
  double forward = 0, backward = 0;  // seconds; of the last shard all in backward
  int64_t weights = 0, gradients = 0, state = 0, copied = 0;
  int64_t kept = 0;  // on the host between forward and backward; of the last none
  int64_t forward_peak = 0, backward_peak = 0;    // bytes on the device
  int64_t forward_fetch = 0, backward_fetch = 0;  // with what the run before gives
  double seconds() const { return forward + backward; }
  int64_t peak() const { return forward_peak > backward_peak ? forward_peak : backward_peak; }
  int64_t fetch() const { return forward_fetch > backward_fetch ? forward_fetch : backward_fetch; }
};
// O(parameters + units of it).
ShardCost CostOfShard(const ModelCosts& costs, int first, int end);

struct ShardLimits {
  int64_t memory = 0;  // of a device, for a shard that runs
  int64_t buffer = 0;  // for the one that comes next
  double balance = 0.05;
  bool any_unit = false;  // a unit by itself may be larger than the buffer
};

// Where shards end, ascending, in units, the last being the number of them. Nothing where some unit fits in no way.
std::optional<std::vector<int>> CutIntoShards(const ModelCosts& costs, const ShardLimits& limits);

// A buffer for all jobs of a fleet, and the shards of each: with that part of the memory, in 32nds, with which there
// are fewest shards in all; of equals the smallest. Where there is none, `missing` says what the job lacks.
struct FleetShards {
  int64_t buffer = 0;
  std::vector<std::vector<int>> ends;  // per model; empty: none fits
  bool feasible = false;
  int worst = -1;      // the model that lacks most
  int64_t needed = 0;  // bytes of memory with which its largest unit would fit
};
FleetShards CutFleet(const std::vector<const ModelCosts*>& models, int64_t memory);

// The most that a job in shards has on its device while it visits each, by the list it runs (Offload::kAll, one device): what
// shards are priced at leaves out what an update of a whole shard takes. Values that a visit does not touch are away.
std::vector<int64_t> ShardPeaks(const Program& program, const MemoryHabits& habits = {});

}  // namespace heddle
