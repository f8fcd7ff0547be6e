// A plan block by block. Consecutive blocks with equal nodes and strategies form a group, so do the blocks between
// layers; side nodes are the last group.
//
//   layers 0..47    LayerNorm, Linear, ... each with its splits and its cost, the mean over these layers
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "report/node_costs.h"

namespace heddle {

struct NodeRow {
  NodeId node;  // in the first block
  std::string op, name;
  std::vector<std::string> splits;  // per axis of the mesh (split_words.h)
  std::string strategy;             // as written in plan files
  NodeCost cost;                    // of one micro-batch in one block
};

struct BlockGroup {
  int first_block = 0, last_block = 0;  // [first, last) of Model::blocks; empty: side nodes
  int first_layer = -1;                 // -1: the blocks are not layers
  int first_stage = 0, last_stage = 0;  // [first, last]
  Mesh mesh;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  std::vector<NodeRow> rows;  // nodes that Matters() accepts, that communicate or that take long
  int others = 0;             // number of the other nodes
  NodeCost rest;              // cost of the other nodes, in one block

  int blocks() const { return last_block - first_block; }
  NodeCost total() const;     // of one block
  std::string label() const;  // "layers 0..47", "layer 3", "blocks 0..2", "side nodes"
};

std::vector<BlockGroup> GroupBlocks(const Model& model, const Plan& plan,
                                    const std::vector<NodeCost>& costs);

}  // namespace heddle
