// Stages that are lowered alike: the copies of one layer differ in the numbers of their nodes, values and stages alone.
//
// A deep pipeline has one or a few layers on each stage, and nearly all of its stages are built from the same rules,
// strategies and recomputation. One stage of each kind is built; the others are copies of it in which every number is
// replaced by its counterpart. A copy equals what BuildStage would have made.
#pragma once

#include <utility>
#include <vector>

#include "program/stage_builder.h"

namespace heddle {

// Which node and value of one stage corresponds to which of another; both ascend.
struct StageMatch {
  std::vector<std::pair<NodeId, NodeId>> nodes;
  std::vector<std::pair<ValueId, ValueId>> values;
  int stages = 0, blocks = 0;  // added to the numbers of stages and blocks

  NodeId Of(NodeId id) const;
  ValueId Of(ValueId id) const;
};

// Per stage the first that is built as it is.
struct AlikeStages {
  IdVector<StageId, StageId> first;
  IdVector<StageId, StageMatch> match;  // from the first to the stage
};
AlikeStages FindAlikeStages(const LoweringContext& context);

// All stages, as BuildStage makes them.
StageBuilds BuildStages(const LoweringContext& context);

}  // namespace heddle
