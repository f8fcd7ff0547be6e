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
//   pp         blocks in stages of about equal work; with chunks, stage i is on devices i mod pp
//
//   Plan plan = ExpertPlan(Analyse(graph), LoadCluster("dgx-h100:16"), {.dp = 8, .tp = 8, .pp = 2});
#pragma once

#include <cstdint>
#include <string>

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
  DType precision = DType::kF32;  // of compute; gradients, master weights and moments are fp32
  bool local_batch_statistics = false;
  bool operator==(const Degrees&) const = default;
};

// The devices these degrees take. Throws InputError where one is below 1 or their product is not a number.
int64_t DevicesOf(const Degrees& degrees);

// Throws InputError, naming every factor and what would do, where the degrees do not fit the cluster or the model.
// The plan is sound (plan/verify.h) but for the model's source, which is the caller's to fill in.
Plan ExpertPlan(const Model& model, const Cluster& cluster, const Degrees& degrees);

}  // namespace heddle
