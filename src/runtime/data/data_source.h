// Where the data of a training run comes from.
//
// A row of a batch is a pure function of (file, seed, step, row): every plan, every number of ranks and every
// resumed run sees the same data, and a rank asks for its own rows alone. Row `row` of step `step` is sample
// step * batch + row.
//
// Which source a path means follows from its name and its first bytes (OpenData):
//   (empty)         synthetic: one batch of seeded numbers, the same at every step
//   tensors         safetensors with a tensor NAME or input.NAME for every input NAME: one batch, the same at
//                   every step, or k batches in a row along dimension 0, in a seeded order per epoch
//   tokens          text, nanoGPT, llm.c or Megatron (graph/token_file.h): windows of the sequence, which do not
//                   overlap, in a seeded order per epoch (data/token_inputs.h says which input gets what)
//
//   auto data = OpenData(graph, {.path = "shakespeare.txt", .seed = 1});
//   Batch mine = data->Rows(step, FactorBlock(batch, ranks, rank));
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "graph/graph.h"
#include "ops/rule.h"
#include "runtime/single_device.h"

namespace heddle {

class DataSource {
 public:
  virtual ~DataSource() = default;

  // Rows [rows.begin, rows.end) of the batch of `step`, for every input of the model by name, in the dtype the
  // model wants, on the CPU. The caller guarantees step >= 0 and 0 <= begin <= end <= the batch. Throws
  // InputError where the file holds what the model cannot take. May be called from several threads.
  virtual Batch Rows(int64_t step, Block rows) const = 0;

  // One line for people: what it is, how much of it, and how inputs and labels are cut from it.
  virtual std::string Describe() const = 0;

  // Of the contents, wherever the file lies: its size and samples from all of it. Costs little for any size.
  virtual uint64_t Fingerprint() const = 0;
};

struct DataOptions {
  std::string path = {};  // empty: synthetic
  uint64_t seed = 0;      // of the order, or of the numbers
};

// `graph` is the model at its global batch, dimension 0 of every input; it is not needed afterwards. Throws
// InputError for files that are missing, damaged, too short or do not fit the model, naming file and place.
std::unique_ptr<DataSource> OpenData(const Graph& graph, const DataOptions& options);

// Dimension 0 of every input. Throws InputError where inputs differ in it, have none, or are empty.
int64_t BatchOf(const Graph& graph);

// For implementers: of all bytes where they are few, else of their number and of pieces spread evenly over them.
uint64_t FingerprintOf(std::span<const std::byte> bytes);

// For implementers: entry `index` of an endless sequence in which every 0 .. size-1 comes once per epoch, in an
// order of its own per epoch.
int64_t SeededPlace(int64_t index, int64_t size, uint64_t seed);

}  // namespace heddle
