// Where the sequence is: dimension 1 of every input of two integer dimensions (batch, tokens), followed forwards
// through the rules as the batch is (ops/rebatch.h).
//
// Unlike the batch it may be lost (a sum over it) or cut in parts; of a sequence that a reshape cuts, the
// outermost part is followed, since splitting that splits the sequence in consecutive pieces. An encoder and a
// decoder have one each; where both meet in a factor the first operand's counts. O(nodes).
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "ops/dim_part.h"
#include "ops/rules.h"

namespace heddle {

using SequencePart = DimPart;

struct SequenceInfo {
  // Per node and factor: where it carries the sequence.
  std::vector<std::vector<std::optional<SequencePart>>> factors;
  bool found = false;
};

SequenceInfo FindSequence(const Graph& graph, const Rules& rules);

}  // namespace heddle
