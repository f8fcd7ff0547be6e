// Training data as tensors in host memory: the rows of any step.
//
// A row of a batch is a pure function of (file, seed, step, row): every plan, every number of ranks and every resumed
// run sees the same data, and a rank asks for its own rows alone. Row `row` of step `step` is sample step * batch +
// row.
//
// The name of a file and its first bytes decide what it is (OpenRows):
//   tensors         safetensors with a tensor NAME or input.NAME for every input NAME: one batch, the same at
//                   every step, or k batches in a row along dimension 0, in a seeded order per epoch
//   tokens          text, nanoGPT, llm.c or Megatron (graph/token_file.h): windows of the sequence, which do not
//                   overlap, in a seeded order per epoch (token_inputs.h says which input gets which tokens)
//
//   auto data = OpenRows(graph, "shakespeare.txt", /*seed=*/1);
//   HostBatch mine = data->Rows(step, FactorBlock(batch, ranks, rank));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "graph/graph.h"
#include "ops/rule.h"

namespace heddle {

// Inputs of the model by name.
using HostBatch = std::map<std::string, HostTensor>;

class RowSource {
 public:
  virtual ~RowSource() = default;

  // Rows [rows.begin, rows.end) of the batch of `step`, for every input of the model. The caller guarantees
  // step >= 0 and 0 <= begin <= end <= the batch. Elements have the type that the file has, which the caller converts
  // to that of the input: integers where the input has integers, floats where it has floats. Throws InputError where
  // the file holds values that the model cannot take. May be called from several threads.
  virtual HostBatch Rows(int64_t step, Block rows) const = 0;

  // One line for people: the file, its size, and how inputs and labels are cut from it.
  virtual std::string Describe() const = 0;

  // A hash of the size and of samples of the contents, independent of the path. Cheap for any size.
  virtual uint64_t Fingerprint() const = 0;
};

// `graph` is the model at its global batch, which is dimension 0 of every input; it is not needed afterwards. Throws
// InputError, with file and place, for files that are missing, damaged, too short or do not fit the model.
std::unique_ptr<RowSource> OpenRows(const Graph& graph, const std::string& path, uint64_t seed);

// Dimension 0 of every input. Throws InputError where inputs differ in it, have none, or are empty.
int64_t BatchOf(const Graph& graph);

// For implementers: a hash of all bytes where they are few, else of their number and of pieces at equal distances.
uint64_t FingerprintOf(std::span<const std::byte> bytes);

// For implementers: entry `index` of an infinite sequence in which each of 0 .. size-1 occurs once per epoch, in a
// different order in every epoch.
int64_t SeededPlace(int64_t index, int64_t size, uint64_t seed);

}  // namespace heddle
