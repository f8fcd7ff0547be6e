// The model as a plan's strategies have it: nodes that split an expanded factor (a loss over a split vocabulary,
// statistics over a split batch) replaced by their graphs of primitives, each with the strategy that follows from
// the node's.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace heddle {

// Whether a node with this strategy is replaced by its graph of primitives: it splits an expanded factor. With local batch
// statistics a node that splits the batch normalises each part by itself, and is not.
bool IsExpanded(const Model& model, NodeId node, const Strategy& strategy, bool local_statistics);

struct ExpandedPlan {
  Model model;  // without foldings; blocks are those of the plan's model
  std::vector<Stage> stages;
  std::vector<NodeId> origin;  // per node, the node of the plan's model it stands for
};

ExpandedPlan Expand(const Model& model, const Plan& plan);

}  // namespace heddle
