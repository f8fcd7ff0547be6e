// The plan an expert would write: Megatron-LM's rules, read off the rules of the ops instead of their names.
//
//   devices    tensor parallelism innermost, inside a node; then context, then experts and data, all within a
//              stage; stages are consecutive runs of devices. Mesh axes are "dp", "ep", "cp", "tp", those of more
//              than one device. Where experts are spread over all of the data axis that axis is "dp" alone.
//   dp         every node splits its batch
//   tp         the first matrix product of a pair by columns, the second (whose operand then comes split) by rows;
//              attention by heads; embeddings, the last product and the loss by vocabulary; the rest not at all
//   sp         ... or, what tp leaves whole, by sequence over the tp axis
//   cp         every node by sequence, attention by queries: keys and values are gathered
//   ep         products with a parameter per expert, and what lies between them, by expert instead of the batch
//   pp         blocks in stages of about equal work, or of so many layers as asked for; with chunks, stage i is on
//              devices i mod pp
//   zero       state is split over all data and context axes; with `zero_ranks` only among so many neighbours along
//              the data axis, which then is two: "dp" of copies and "shard" within each (hybrid sharding)
//
//   Plan plan = ExpertPlan(Analyse(graph), LoadCluster("dgx-h100:16"), {.dp = 8, .tp = 8, .pp = 2});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace heddle {

struct Degrees {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;  // ep divides dp
  bool sp = false;
  int64_t microbatches = 1;
  int chunks = 1;  // stages per run of devices
  std::string schedule = "1f1b";
  int zero = 0;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  Offload offload = Offload::kNone;
  DType precision = DType::kF32;  // of compute; master weights and moments are fp32
  bool local_batch_statistics = false;
  DType gradients = DType::kF32;
  Products products = Products::kAsCompute;
  int64_t zero_ranks = 0;  // divides dp; 0: all of it
  // Layers of each stage, in order: repeated blocks of the model, the copies of all its chains. What comes before
  // the first is with the first stage, what comes after one with that one's stage; the first and the last stage may
  // have none. Empty: as suits the work.
  std::vector<int64_t> layers_per_stage = {};
  // Of a micro-batch for each data rank, in proportion; they divide its samples. Empty: equal parts.
  std::vector<int64_t> shares = {};
  // Of all parameters that can (plan/gradient_sync.h); the others are reduced.
  GradientSync sync = GradientSync::kReduce;
  bool operator==(const Degrees&) const = default;
};

// How many repeated blocks a model has: what `layers_per_stage` adds up to.
int64_t LayersOf(const Model& model);

// Where stages of so many layers each end, in blocks. Throws InputError where they do not add up.
std::vector<int> StageEnds(const Model& model, const std::vector<int64_t>& layers, size_t stages);
// Where the stages of an expert's plan end: as `layers_per_stage` says, or in stages of about equal work, `flops` per block.
// Throws InputError where there are too few blocks.
std::vector<int> ExpertEnds(const Model& model, const Degrees& degrees,
                            const std::vector<double>& flops);
// The layers of stages with these ends; empty where no numbers of layers give them.
std::vector<int64_t> LayersPerStage(const Model& model, const std::vector<int>& ends);

// The devices these degrees take. Throws InputError where one is below 1 or their product is not a number.
int64_t DevicesOf(const Degrees& degrees);

// Throws InputError, naming every factor and what would do, where the degrees do not fit the cluster or the model.
// The plan is sound (plan/verify.h) but for the model's source, which is the caller's to fill in.
Plan ExpertPlan(const Model& model, const Cluster& cluster, const Degrees& degrees);

// Says on standard error what is allowed and may surprise: idle devices, uneven shares.
void Remark(const Cluster& cluster, const Degrees& degrees, int64_t batch);

}  // namespace heddle
