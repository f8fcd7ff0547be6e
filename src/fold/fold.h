// Repeated subgraphs, found by structure alone (TAP's idea, without its names): a deep network is a few
// unique blocks and how often each follows itself.
//
// A *chain* is a run of equal blocks, each fed by the one before. Folding finds, for the layers of a network,
// the shift: a partial map from nodes to nodes that takes every node to its counterpart one block later, and
// is consistent with operands and readers. It is grown from pairs of alike nodes, and of all such maps the one
// with most pairs is taken; what the chain does not cover is searched again (an encoder, then a decoder).
//
// Two nodes are alike when op, rule and the kinds and types of operands are: names, positions, and attributes
// that change neither shape nor rule do not count. A block's cut is chosen where the fewest bytes cross.
//
//   gpt2: 12 blocks of 26 nodes   =   Folding{{chain of 12 copies, each of 26 nodes in the same order}}
//
// The result does not depend on the names of nodes nor on their order within topological freedom. Time is
// linear in the nodes: a bounded number of shifts and cuts is tried, each in one pass.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "ops/rules.h"

namespace heddle {

struct Chain {
  // copies[i][j] is node j of block i; nodes of the same j are alike. Blocks are in the order of the data flow,
  // nodes within a block in topological order.
  std::vector<std::vector<NodeId>> copies;
  // Bytes of values that cross from one block into later ones.
  int64_t crossing_bytes = 0;

  size_t count() const { return copies.size(); }
  size_t nodes_per_block() const { return copies.empty() ? 0 : copies.front().size(); }
};

struct Folding {
  std::vector<Chain> chains;  // in the order of the data flow; no node is in two
};

Folding Fold(const Graph& graph, const Rules& rules);

}  // namespace heddle
