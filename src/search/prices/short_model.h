// A shallow model that stands for a deep one: a few copies of every long chain of equal blocks are
// left.
//
//   ShortModel small = Shorten(model);       // gpt3-175b: 5 layers instead of 96
//   small.model, small.left_out
//
// The copies 0 .. kExplicitCopies - 2 and the last one stay. The last copy reads from the one before it
// what it read from the last but one copy. So every way in which copies are connected with each
// other and with their surroundings still occurs, and the time to find the costs of strategies does
// not grow with depth. A chain stays whole where something other than the next copy reads a value
// of a copy that would be left out. O(nodes), once per model.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model.h"

namespace heddle {

constexpr size_t kExplicitCopies = 5;  // copies that remain of a chain

// The node of the short model that a node of the whole model corresponds to.
struct ShortNode {
  NodeId node;        // of the short model; invalid: a side node that no remaining node reads
  int chain = -1;     // if the node's copy is left out
  int64_t copy = -1;  // counted from the first copy that is left out
};

struct ShortModel {
  Model model;
  std::vector<ShortNode>
      nodes;  // per node of the whole model; for a copy left out, the node of the copy before
  std::vector<ShortNode>
      blocks;  // per block of the whole model; `node` is a block of the short model
  std::vector<int64_t> left_out;  // per chain
};

ShortModel Shorten(const Model& whole);

}  // namespace heddle
