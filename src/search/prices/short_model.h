// A deep model as a shallow one that stands for it: of every long chain of equal blocks a few copies are left.
//
//   ShortModel small = Shorten(model);       // gpt3-175b: 5 layers instead of 96
//   small.model, small.left_out
//
// Copies 0 .. kSpelled - 2 and the last one stay; the last reads from the one before it what it read from the last but
// one. So every way in which copies touch each other, and what is before and after them, is still there, and costs of
// strategies can be found at a price that does not grow with depth. A chain stays whole where something other than the
// next copy reads what is left out. O(nodes), once per model.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model.h"

namespace heddle {

constexpr size_t kSpelled = 5;  // copies that are left of a chain

// Where a node of the whole model is in the short one.
struct ShortNode {
  NodeId node;        // of the short model; invalid: a side node that nothing left reads
  int chain = -1;     // of a copy that is left out
  int64_t copy = -1;  // counted from the first that is
};

struct ShortModel {
  Model model;
  std::vector<ShortNode>
      nodes;  // per node of the whole model; of a copy left out: that of the copy before
  std::vector<ShortNode>
      blocks;  // per block of the whole model, `node` being a block of the short one
  std::vector<int64_t> left_out;  // per chain
};

ShortModel Shorten(const Model& whole);

}  // namespace heddle
