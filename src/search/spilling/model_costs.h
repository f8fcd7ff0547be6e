// What the parts of a model take on one device: the numbers that cutting it into shards needs, from lowered programs,
// their prices (sim/durations.h) and their memory (sim/memory.h). Nothing is measured.
//
// A *unit* is the least that is never cut: a block of the model, or of large models that do not repeat a run of blocks
// between two places where little passes. The model is lowered as a pipeline with a unit per stage and a device per
// stage, twice: with every repeated block recomputed, as shards that come back later are, and with everything kept, as
// the last shard is. So every unit has a list of its own:
//
//   seconds      forward, again, backward, and of the update of its parameters
//   most         the most that values and buffers take while it runs forward, or backward
//   kept         what it keeps from forward for backward
//   cut          at a cut: what passes it. Any graph: a value passes all cuts between the unit that makes it and
//                the last that reads it
//
// A shard of several units takes their sums, the most with what those before it in the shard have kept. What two units
// of a shard both hold (a value read far away, a mask) counts twice: more than it takes, never less.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "sim/options.h"

namespace heddle {

// One parameter: bytes, and the units that read it, ascending. Tied weights are held by every shard that reads them.
struct ParameterCost {
  int64_t weights = 0;  // on the device
  int64_t copied = 0;   // what is fetched and evicted of them; of pruned ones only what is kept
  int64_t gradients = 0;
  int64_t state = 0;  // moments, master weights, the index of pruned ones
  double update_seconds = 0;
  std::vector<int> units;
  bool operator==(const ParameterCost&) const = default;
};

// One of the two programs.
struct ListCosts {
  std::vector<double> forward, again, backward;  // seconds per unit
  std::vector<int64_t> most_forward,
      most_backward;          // bytes per unit, with what all units before it have kept
  std::vector<int64_t> kept;  // bytes per cut, units + 1: of all units before it
};

struct ModelCosts {
  int units = 0;
  std::vector<int> block_ends;  // per unit: where it ends in Model::blocks
  ListCosts recomputed, whole;  // shards before the last, and the last
  std::vector<bool> keeps;      // per unit: shards before the last keep it and do not recompute it
  // Per unit: it may be one segment with the unit before. A segment's gradients of weights are there from its
  // beginning, beside what autograd made of them, until its end.
  std::vector<bool> joined;
  std::vector<int64_t> cut, cut_gradients;  // bytes per cut
  std::vector<ParameterCost> parameters;
  double run_seconds = 0;    // of every run of a shard besides its units: the framework
  int64_t update_bytes = 0;  // the most an update needs besides
};

struct ModelCostOptions {
  DType precision = DType::kF32;
  std::string optimizer = "adamw";
  Pruning pruning = {};
  bool local_batch_statistics = true;
  SimOptions sim = {};
};

// The same where shards before the last keep what backward needs of units on the host, in place of recomputing them: those for
// which copying that takes at most `most_copying` times as long as recomputing, one way. In `recomputed` are then whichever is done.
ModelCosts KeepOnHost(ModelCosts costs, double host_bandwidth, double most_copying);

// The most units of a model.
constexpr int kMaxUnits = 256;

// On devices like the first of the cluster. Throws InputError where the device has no rate for the precision.
ModelCosts FindModelCosts(const Model& model, const Cluster& cluster,
                          const ModelCostOptions& options);

}  // namespace heddle
