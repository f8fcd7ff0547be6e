// A node that splits an expanded factor, as the primitives that it stands for and the values
// between them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "plan/model.h"
#include "plan/sharding.h"

namespace heddle {

// How a value is made or comes in, and how each of its readers inside the expansion wants it and
// returns its gradient.
struct ExpandedValue {
  Sharding given;
  std::vector<std::pair<Sharding, std::optional<Sharding>>> uses;
  int64_t element_bytes = 4;
};

struct ExpandedNode {
  Graph graph;
  Rules rules;
  GradientFlow flow;
  std::vector<Strategy> strategies;   // per node
  std::vector<ExpandedValue> values;  // values that primitives read, and the results
};

// `rule` is the node's rule at the size in question; the strategy splits an expanded factor of it.
ExpandedNode ExpandNode(const Model& model, const Rule& rule, NodeId node, const Mesh& mesh,
                        const Strategy& strategy);

}  // namespace heddle
