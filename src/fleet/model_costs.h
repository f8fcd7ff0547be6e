// What the blocks of a model take on one device: the numbers that cutting it into shards needs, from the program of one
// device, its prices (sim/durations.h) and its memory (sim/memory.h). Nothing is measured.
//
// The model is lowered twice on one device: with every repeated block recomputed, as shards that come back later are, and
// with everything kept, as the last shard is. Of each list the instructions are gone through by block:
//
//   seconds      of a block forward, again, backward, and of the update of its parameters
//   most         the most that values and buffers take while the block runs forward, or backward
//   kept         at a cut: what the blocks before it keep for backward, all together
//   cut          at a cut: what passes it. Any graph: a value passes all cuts between the block that makes it and
//                the last that reads it
//
// So a shard [a, b) alone takes what the list took, less what the blocks before a had kept, and the parameters of its own
// blocks in place of all.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "sim/options.h"

namespace heddle {

// One parameter: bytes, and the blocks that read it, ascending. Tied weights are held by every shard that reads them.
struct ParameterCost {
  int64_t weights = 0;  // on the device
  int64_t copied = 0;   // what is fetched and evicted of them; of pruned ones only what is kept
  int64_t gradients = 0;
  int64_t state = 0;  // moments, master weights, the index of pruned ones
  double update_seconds = 0;
  std::vector<int> blocks;
  bool operator==(const ParameterCost&) const = default;
};

// One of the two lists.
struct ListCosts {
  std::vector<double> forward, again, backward;      // seconds per block
  std::vector<int64_t> most_forward, most_backward;  // bytes per block
  std::vector<int64_t> kept;                         // bytes per cut: blocks + 1
};

struct ModelCosts {
  int blocks = 0;
  ListCosts recomputed, whole;
  std::vector<int64_t> cut, cut_gradients;  // bytes per cut
  std::vector<ParameterCost> parameters;
  double run_seconds = 0;      // of every run of a shard, besides its blocks: the framework
  double side_seconds = 0;     // of every run: what is computed from inputs and parameters alone
  int64_t gradient_slack = 0;  // gradients come in buckets
  int64_t update_bytes = 0;    // the most an update needs besides
};

struct ModelCostOptions {
  DType precision = DType::kF32;
  int moments = 2;  // of the optimizer: Adam 2, SGD with momentum 1, SGD 0
  Pruning pruning = {};
  bool local_batch_statistics = true;
  SimOptions sim = {};
};

// On the first device of the cluster. Throws InputError where the device has no rate for the precision.
ModelCosts FindModelCosts(const Model& model, const Cluster& cluster,
                          const ModelCostOptions& options);

}  // namespace heddle
