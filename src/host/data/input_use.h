// How the graph reads its inputs: which look up tables (tokens), which are compared with logits (labels), and
// whether the graph itself moves the labels against the logits.
//
// An input is followed forward through ops that keep its elements as they are (Reshape, Cast, Transpose,
// Expand, Where, Clip) and through those that move them along the sequence, with the offset they make:
//   Slice, Split   element i is i + start of the operand       offset + start
//   Pad, Concat    element i is i - what stands before it      offset - that
// The logits are followed back from the loss likewise. Exports of Hugging Face models predict labels[1:] from
// logits[:-1]: the offset of the labels is 1, that of the logits 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace heddle {

struct InputUse {
  enum class Kind { kTable, kLabel };
  Kind kind = Kind::kTable;
  NodeId node;                     // a Gather; or a CrossEntropy, NllLoss or GatherElements
  int64_t bound = 0;               // rows of the table, or classes
  std::optional<int64_t> ignored;  // a label that does not count
  // Which element of the input meets the first row of the table's result or of the logits: 0 where the graph
  // moves nothing, 1 where it shifts labels itself.
  int64_t shift = 0;
};

// In the order of the nodes. Linear in the size of the graph, which must obey its rules (CheckTypes).
std::vector<InputUse> UsesOf(const Graph& graph, ValueId input);

// The values an integer input may have, from how the graph reads it: [low, high), and one more that is
// ignored (labels). high is 0 where nothing is known.
struct InputRange {
  int64_t low = 0;
  int64_t high = 0;
  std::optional<int64_t> ignored;
};
InputRange RangeOf(const Graph& graph, ValueId input);

}  // namespace heddle
