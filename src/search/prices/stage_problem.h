// The choice of strategies for a range of a model's blocks on one mesh, as an additive problem.
//
// Variables:
//   node     its strategy (strategies.h). A relabeling has none of its own where, whatever its operand's sharding, it
//            has a strategy that takes that as it is: it follows its operand.
//   copy     of a value that several operands read: its sharding, of those somebody gives or wants, and the axes along
//            which its gradient is a partial sum there. producer -> copy is paid once, copy -> reader for each of them;
//            gradients reach the copy, partial as they are, and are reduced once on the way to the producer.
//   storage  of a parameter that several operands read: how it is stored (as its first reader in a block wants it), and
//            the axes its gradient is reduced over
// Pairs: producer and reader of a value read once; producer or reader and copy; reader and storage.
//
// A reader that wants exactly what the producer gives is charged as if it read the copy; lowering lets it read the
// original (program/stage_builder.h). Other differences: bytes decide the copy there, seconds here; gradients added up
// cost nothing here. A value that comes from another stage is there in any sharding; one that later stages read is
// completed. In blocks of one chain tables are the same objects.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "search/prices/costs.h"
#include "search/solver/problem.h"

namespace heddle {

using ChoiceCosts = std::vector<ChoiceCost>;  // per choice of a variable

// What a node may do, and what this means at its operands and results: [operand][choice].
struct NodeChoices {
  std::vector<Strategy> strategies;
  std::vector<std::vector<ShardingId>> operands;
  std::vector<std::vector<ShardingId>> gradients;  // -1: none is given
  std::vector<std::vector<ShardingId>> results;
  std::shared_ptr<const ChoiceCosts> costs;
};

struct NodeVariable {
  int variable = -1;  // -1: the node is not in the stage
  std::shared_ptr<const NodeChoices> choices;
  std::vector<int> follows;  // of a relabeling that follows: its choice by that of the variable
};

struct StageProblem {
  Problem problem;  // weighed with nothing but seconds: StageScale{}
  std::vector<std::shared_ptr<const ChoiceCosts>> costs;  // per variable
  std::vector<NodeId> makers;       // per variable: the node whose it is, or whose value's
  std::vector<NodeVariable> nodes;  // per node of the graph
};

// Blocks [first, last) and the side nodes they read, all blocks under one policy. What is alike is made once for all problems of a maker.
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
  double microbatches = 1;         // of a step: what is done once counts as this share
  double in_flight = 1;            // micro-batches whose activations are kept at a time
  double bytes_per_parameter = 0;  // weight, gradient and optimizer state
  double seconds_per_parameter = 0, queued_per_parameter = 0;  // of a step: update, reduction
  double held = 1;                                             // of what is there throughout
};
Cost Weighed(const ChoiceCost& cost, const StageScale& scale);
Problem Weighed(const StageProblem& stage, const StageScale& scale);

// What the blocks of a stage cost under a solution: every choice where its node is, what passes between two where it is
// read. Side nodes are with the first block. Of copies that are not spelled out the mean stands at the block that they
// repeat.
struct BlockCosts {
  std::vector<ChoiceCost> blocks, unspelled;  // per block of the model
};
BlockCosts CostsByBlock(const Model& model, const StageProblem& stage, const Solution& solution);

// Per node of the graph; empty for nodes that are not the stage's.
std::vector<Strategy> StrategiesOf(const StageProblem& stage, const std::vector<int>& choice);

// The choices that some strategies mean, -1 for copies and storages (Problem's Restrict takes it). What nodes that
// follow do is not looked at. Nothing where a node's strategy is not among those considered, nor does the same as one.
std::optional<std::vector<int>> ChoicesOf(StageCosts& costs, const StageProblem& stage,
                                          const std::vector<Strategy>& strategies);

}  // namespace heddle
