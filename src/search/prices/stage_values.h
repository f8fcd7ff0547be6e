// The nodes of a stage and the values between them: who reads a value, what is kept for backward
// and what is recomputed.
#pragma once

#include <vector>

#include "search/prices/costs.h"
#include "search/prices/value_states.h"

namespace heddle {

struct UseAt {
  NodeId node;
  size_t operand = 0;
};

class StageValues {
 public:
  // Blocks [first_block, last_block) and the side nodes that they read, under one recomputation policy.
  StageValues(const StageCosts& costs, int first_block, int last_block, RecomputePolicy recompute);

  const std::vector<NodeId>& nodes() const { return nodes_; }  // in ascending order
  bool IsHere(NodeId id) const;
  const std::vector<UseAt>& uses(ValueId id) const { return uses_[id.index()]; }
  // Per operand of a node: whether it is a parameter that nobody else reads.
  const std::vector<bool>& sole(NodeId id) const { return sole_[id.index()]; }
  const KeptParts& kept(NodeId id) const { return kept_[id.index()]; }
  int64_t ElementBytes(ValueId id) const;
  // How often a micro-batch moves a value: once, or a share of once per step.
  double Repeats(ValueId id) const;
  // How traffic of a value on its way to a reader counts.
  Scale ScaleOf(ValueId id, NodeId reader) const;

 private:
  const Node& node(NodeId id) const { return model_.graph.node(id); }
  const Value& value(ValueId id) const { return model_.graph.value(id); }
  bool IsWaited(ValueId id, NodeId reader) const;
  bool IsInRecomputedUnit(NodeId id) const;
  bool IsRecomputed(NodeId id) const;
  void FindOrder();
  void FindUses();
  void FindKeepers();
  std::vector<ValueId> KeptFor(NodeId id) const;

  const StageCosts& costs_;
  const Model& model_;
  RecomputePolicy recompute_;
  std::vector<NodeId> nodes_;
  std::vector<int> kernels_before_;       // per node; -1: not in a block of the stage
  std::vector<std::vector<UseAt>> uses_;  // per value
  std::vector<std::vector<bool>> sole_;   // per node and operand
  std::vector<KeptParts> kept_;           // per node
};

}  // namespace heddle
