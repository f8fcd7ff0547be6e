// Costs of the parts of a model on one device, from which shards are cut. They come from lowered
// programs with their durations (sim/durations.h) and memory (sim/memory.h); nothing is measured.
//
// A *unit* is never cut: it is a block of the model, or for large models without repetition a run
// of blocks between two cuts that little passes. The model is lowered as a pipeline with one unit
// per stage and one stage per device, twice: with every repeated block recomputed, as in shards
// that return for their backward, and with everything kept, as in the last shard. So every unit has
// an instruction list of its own:
//
//   seconds      of forward, of forward again, of backward, and of the update of its parameters
//   most         the most bytes of values and buffers during forward, and during backward
//   kept         bytes that it keeps from forward for backward
//   cut          bytes that pass a cut; a value passes all cuts between the unit that makes it and the last that reads it
//
// A shard of several units has the sum of their seconds, and the most bytes together with what
// earlier units of the shard have kept. Values that two units of a shard hold (a distant input, a
// mask) count twice, so memory is never underestimated.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "sim/options.h"

namespace heddle {

// One parameter: its bytes, and the units that read it in ascending order. Every shard that reads
// tied weights holds them.
struct ParameterCost {
  int64_t weights = 0;  // on the device
  // Bytes that are fetched and evicted; of pruned parameters only the kept weights.
  int64_t copied = 0;
  int64_t gradients = 0;
  int64_t state = 0;  // moments, master weights, the index of pruned parameters
  double update_seconds = 0;
  std::vector<int> units;
  bool operator==(const ParameterCost&) const = default;
};

// Costs from one of the two programs.
struct ListCosts {
  std::vector<double> forward, again, backward;  // seconds per unit
  std::vector<int64_t> most_forward,
      most_backward;          // bytes per unit, including what all units before it have kept
  std::vector<int64_t> kept;  // bytes per cut (units + 1) that all units before it keep
};

struct ModelCosts {
  int units = 0;
  std::vector<int> block_ends;  // per unit: its end in Model::blocks
  ListCosts recomputed, whole;  // for shards before the last, and for the last
  std::vector<bool> keeps;  // per unit: shards before the last keep it instead of recomputing it
  // Per unit: it may form one segment with the unit before. The gradients of a segment's weights,
  // and what autograd made of them, exist from the beginning of the segment's backward to its end.
  std::vector<bool> joined;
  std::vector<int64_t> cut, cut_gradients;  // bytes per cut
  std::vector<ParameterCost> parameters;
  double run_seconds = 0;    // framework overhead of every run of a shard, in addition to its units
  int64_t update_bytes = 0;  // the most bytes that an update needs in addition
};

struct ModelCostOptions {
  DType precision = DType::kF32;
  std::string optimizer = "adamw";
  Pruning pruning = {};
  bool local_batch_statistics = true;
  SimOptions sim = {};
};

// Costs if shards before the last keep on the host what the backward of some units needs, instead
// of recomputing these: the units whose copy takes at most `most_copying` times as long, one way,
// as recomputing them. `recomputed` then has what is done for each unit.
ModelCosts KeepOnHost(ModelCosts costs, double host_bandwidth, double most_copying);

// The most units of a model.
constexpr int kMaxUnits = 256;

// On devices like the cluster's first. Throws InputError where the device has no rate for the
// precision.
ModelCosts FindModelCosts(const Model& model, const Cluster& cluster,
                          const ModelCostOptions& options);

}  // namespace heddle
