// Batches to train on.
#pragma once

#include <string>

#include "graph/graph.h"
#include "runtime/single_device.h"

namespace heddle {

// One fixed batch from a safetensors file with tensors NAME or input.NAME for every input NAME. Throws
// InputError listing every input that is missing or has another shape, and token ids or labels that the
// model cannot take.
Batch ReadBatch(const Graph& graph, const std::string& path);

// Seeded numbers: normal for float inputs; for integers, below the size of the table they look up or the
// number of classes they label.
Batch SyntheticBatch(const Graph& graph, uint64_t seed);

// The values an integer input may have, from how the graph reads it: [low, high), and one more that is
// ignored (labels). high is 0 where nothing is known.
struct InputRange {
  int64_t low = 0;
  int64_t high = 0;
  std::optional<int64_t> ignored;
};
InputRange RangeOf(const Graph& graph, ValueId input);

}  // namespace heddle
