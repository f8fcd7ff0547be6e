// What folding sees of a graph: nodes in an order that structure alone determines, and their signatures.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "ops/rules.h"

namespace heddle {

// Nodes that outputs depend on, each after the producers of its operands, by depth-first search from the
// outputs through operands in their order. Neither names nor the order of storage matter.
std::vector<NodeId> CanonicalOrder(const Graph& graph);

// A hash per node of op, rule, and the kinds and types of operands and results.
std::vector<uint64_t> Signatures(const Graph& graph, const Rules& rules);

// Signatures that also see `radius` steps of producers and readers.
std::vector<uint64_t> Neighbourhoods(const Graph& graph, std::vector<uint64_t> signatures,
                                     int radius);

}  // namespace heddle
