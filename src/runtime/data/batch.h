// Batches in memory: read from a file of tensors, or synthetic.
#pragma once

#include <string>

#include "graph/graph.h"
#include "ops/rule.h"
#include "runtime/single_device.h"

namespace heddle {

// One fixed batch from a safetensors file with tensors NAME or input.NAME for every input NAME. Throws
// InputError listing every input that is missing or has another shape, and token ids or labels that the
// model cannot take.
Batch ReadBatch(const Graph& graph, const std::string& path);

// Rows [rows.begin, rows.end) of dimension 0 of every input: views, not copies.
Batch RowsOf(const Batch& batch, Block rows);

// Seeded random numbers: floats are normal; integers are below the size of the table that they look up, or below the
// number of classes.
Batch SyntheticBatch(const Graph& graph, uint64_t seed);

// Rows [rows.begin, rows.end) of dimension 0 of SyntheticBatch. Does not compute the other rows.
Batch SyntheticRows(const Graph& graph, uint64_t seed, Block rows);

}  // namespace heddle
