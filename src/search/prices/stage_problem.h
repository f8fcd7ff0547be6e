// Choosing the strategies of a range of a model's blocks on one mesh, as an additive problem.
//
// Variables:
//   node     Its strategy (strategies.h). A relabeling (a view) has no variable where it has, for every sharding of its
//            operand, a strategy that takes this sharding as it is: then it follows its operand.
//   copy     For a value that several operands read: its sharding, among those that the producer gives or a reader wants,
//            and the axes along which its gradient is a partial sum there. The conversion from producer to copy is paid
//            once, from the copy to each reader once per reader. Gradients arrive at the copy as partial sums and are
//            reduced once on the way to the producer.
//   storage  For a parameter that several operands read: the sharding it is stored in, which its first reader in a block
//            wants, and the axes over which its gradient is reduced.
// Pairs: producer and reader of a value that is read once; producer or reader and copy; reader and storage.
//
// A reader that wants exactly what the producer gives is charged as if it read the copy; lowering
// lets it read the original (program/stage_builder.h). Two more differences from lowering: there
// the copy is chosen by bytes, here by seconds; and here adding up gradients is free. A value from
// another stage is available in any sharding; a value that later stages read is made complete.
// Blocks of one chain share the same table objects.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "search/prices/costs.h"
#include "search/solver/problem.h"

namespace heddle {

using ChoiceCosts = std::vector<ChoiceCost>;  // per choice of a variable

// What a node may do, and the shardings at its operands and results: [operand][choice].
struct NodeChoices {
  std::vector<Strategy> strategies;
  std::vector<std::vector<ShardingId>> operands;
  std::vector<std::vector<ShardingId>> gradients;  // -1: no gradient
  std::vector<std::vector<ShardingId>> results;
  std::shared_ptr<const ChoiceCosts> costs;
};

struct NodeVariable {
  int variable = -1;  // -1: the node is not in the stage
  std::shared_ptr<const NodeChoices> choices;
  std::vector<int> follows;  // for a relabeling that follows: its choice per choice of the variable
};

struct StageProblem {
  Problem problem;                                        // weighed with StageScale{}: seconds only
  std::vector<std::shared_ptr<const ChoiceCosts>> costs;  // per variable
  std::vector<NodeId> makers;       // per variable: its node, or the producer of its value
  std::vector<NodeVariable> nodes;  // per node of the graph
};

// Makes problems of blocks [first, last) and the side nodes that they read, all blocks under one
// policy. The problems of a maker share equal tables and costs.
class ProblemMaker {
 public:
  explicit ProblemMaker(StageCosts& costs);
  ~ProblemMaker();
  ProblemMaker(const ProblemMaker&) = delete;
  ProblemMaker& operator=(const ProblemMaker&) = delete;
  StageProblem Of(int first_block, int last_block, RecomputePolicy recompute);
  StageCosts& costs();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
StageProblem MakeStageProblem(StageCosts& costs, int first_block, int last_block,
                              RecomputePolicy recompute = RecomputePolicy::kNone);

// How a micro-batch's costs add up on a device.
struct StageScale {
  double microbatches = 1;         // of a step: work done once per step counts as one share
  double in_flight = 1;            // micro-batches whose activations are kept at a time
  double bytes_per_parameter = 0;  // weight, gradient and optimizer state
  double seconds_per_parameter = 0, queued_per_parameter = 0;  // of a step: update; reduction
  double held = 1;  // factor on bytes that are held throughout the step
};
Cost Weighed(const ChoiceCost& cost, const StageScale& scale);
Problem Weighed(const StageProblem& stage, const StageScale& scale);

// The costs of a stage's blocks under a solution. The cost of a choice counts at its node's block,
// the cost of a pair at the later block. Side nodes count at the first block. For copies of a chain
// that are left out of the problem, the mean counts at the block that they repeat.
struct BlockCosts {
  std::vector<ChoiceCost> blocks, left_out;  // per block of the model
};
BlockCosts CostsByBlock(const Model& model, const StageProblem& stage, const Solution& solution);

// Per node of the graph; empty for nodes outside the stage.
std::vector<Strategy> StrategiesOf(const StageProblem& stage, const std::vector<int>& choice);

// The choices that correspond to given strategies, -1 for copies and storages (for Problem's
// Restrict). The strategies of nodes that follow are not examined. Nothing where a node's strategy
// is neither among those considered nor equivalent to one of them.
std::optional<std::vector<int>> ChoicesOf(StageCosts& costs, const StageProblem& stage,
                                          const std::vector<Strategy>& strategies);

}  // namespace heddle
