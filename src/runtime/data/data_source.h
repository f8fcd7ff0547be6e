// Where the batches of a training run come from: host/data/row_source.h as tensors of libtorch, and synthetic data.
//
//   auto data = OpenData(graph, {.path = "shakespeare.txt", .seed = 1});
//   Batch mine = data->Rows(step, FactorBlock(batch, ranks, rank));
#pragma once

#include <memory>
#include <string>

#include "graph/graph.h"
#include "host/data/row_source.h"
#include "ops/rule.h"
#include "runtime/single_device.h"

namespace heddle {

class DataSource {
 public:
  virtual ~DataSource() = default;

  // As RowSource::Rows, in the element types of the model's inputs, on the CPU.
  virtual Batch Rows(int64_t step, Block rows) const = 0;

  // These two as those of RowSource.
  virtual std::string Describe() const = 0;
  virtual uint64_t Fingerprint() const = 0;
};

struct DataOptions {
  std::string path =
      {};  // empty: synthetic, one batch of seeded numbers that is the same at every step
  uint64_t seed = 0;  // of the order of samples, or of the synthetic numbers
};

// `graph` and what it throws: as OpenRows.
std::unique_ptr<DataSource> OpenData(const Graph& graph, const DataOptions& options);

}  // namespace heddle
