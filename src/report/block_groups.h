// A plan block by block: consecutive blocks that do the same are one group, what lies between layers another,
// side nodes the last.
//
//   layers 0..47    LayerNorm, Linear, ... each with what it splits and costs, the mean over these layers
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "report/node_costs.h"

namespace heddle {

struct NodeRow {
  NodeId node;  // of the first block
  std::string op, name;
  std::vector<std::string> splits;  // per axis of the mesh (split_words.h)
  std::string strategy;             // as plan files have it
  NodeCost cost;                    // of one micro-batch in one block
};

struct BlockGroup {
  int first_block = 0, last_block = 0;  // [first, last) of Model::blocks; none: side nodes
  int first_layer = -1;                 // -1: these are no layers
  int first_stage = 0, last_stage = 0;  // [first, last]
  Mesh mesh;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  std::vector<NodeRow> rows;  // nodes that matter, communicate or take long
  int others = 0;             // the rest of its nodes
  NodeCost rest;              // theirs, of one block

  int blocks() const { return last_block - first_block; }
  NodeCost total() const;     // of one block
  std::string label() const;  // "layers 0..47", "layer 3", "blocks 0..2", "side nodes"
};

std::vector<BlockGroup> GroupBlocks(const Model& model, const Plan& plan,
                                    const std::vector<NodeCost>& costs);

}  // namespace heddle
