// The same model at another batch.
//
// The batch is dimension 0 of every input. It is followed through the rules: a dimension that carries it is
// outer x batch x inner (tokens = batch x sequence), a factor of a rule likewise, and what an operand's
// dimension carries its factor carries into every other tensor that has the factor; backwards too, so that
// constants expanded to the batch are found. Constants that merely repeat along it were shrunk to 1 at import.
//
//   Graph larger = Rebatch(graph, 64);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/rules.h"

namespace heddle {

// A dimension (or factor) of size outer * batch * inner.
struct BatchPart {
  int64_t outer = 1;
  int64_t inner = 1;
  bool operator==(const BatchPart&) const = default;
};

struct BatchInfo {
  int64_t size = 0;
  // Per value and dimension: where it carries the batch.
  std::vector<std::vector<std::optional<BatchPart>>> dims;
  // Per node and factor.
  std::vector<std::vector<std::optional<BatchPart>>> factors;
};

// Where the batch is. Throws InputError naming the node and the reason where it cannot be followed: inputs of
// unlike batches, a reshape that cuts through it, a constant or parameter as long as the batch, an op that
// mixes samples; and for a batch of 1, which no dimension shows.
BatchInfo FindBatch(const Graph& graph);
BatchInfo FindBatch(const Graph& graph, const Rules& rules);  // of its nodes

// The model with another batch: types follow from the rules, shapes in attributes are changed, data is shared.
// Throws as FindBatch does. A model of batch 1 is followed from its inputs on.
Graph Rebatch(const Graph& graph, int64_t batch);

}  // namespace heddle
