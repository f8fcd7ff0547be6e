// How the graph uses its inputs: which of them look up tables (tokens), which are compared with logits (labels), and
// whether the graph itself shifts the labels against the logits.
//
// An input is followed forward through ops that keep its elements unchanged (Reshape, Cast, Transpose, Expand, Where,
// Clip) and through ops that move them along the sequence, which change the offset:
//   Slice, Split   element i is element i + start of the operand            offset + start
//   Pad, Concat    element i is element i - (elements in front of it)       offset - (elements in front)
// Logits are followed backward from the loss in the same way. Exports of Hugging Face models predict labels[1:] from
// logits[:-1]: the labels have the offset 1 and the logits 0.
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
  // The element of the input that belongs to the first row of the table's result or of the logits: 0 where the graph
  // shifts nothing, 1 where it shifts the labels.
  int64_t shift = 0;
};

// In the order of the nodes. Takes time linear in the size of the graph, which must pass CheckTypes.
std::vector<InputUse> UsesOf(const Graph& graph, ValueId input);

// The values that an integer input may have according to its uses: [low, high), and the label that is ignored. `high`
// is 0 where nothing is known.
struct InputRange {
  int64_t low = 0;
  int64_t high = 0;
  std::optional<int64_t> ignored;
};
InputRange RangeOf(const Graph& graph, ValueId input);

}  // namespace heddle
