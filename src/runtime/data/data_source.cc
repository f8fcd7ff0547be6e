#include "runtime/data/data_source.h"

#include <fmt/format.h>

#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "runtime/data/batch.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

class SyntheticSource : public DataSource {
 public:
  SyntheticSource(const Graph& graph, uint64_t seed) : batch_(BatchOf(graph)), seed_(seed) {
    // Only the inputs and their uses are needed: weights are dropped.
    graph_ = graph;
    for (Value& value : graph_.values) value.data = nullptr;
  }

  Batch Rows(int64_t step, Block rows) const override {
    HEDDLE_CHECK(step >= 0 && rows.begin >= 0 && rows.begin <= rows.end && rows.end <= batch_,
                 "step {}, rows {}..{}", step, rows.begin, rows.end);
    return SyntheticRows(graph_, seed_, rows);
  }

  std::string Describe() const override {
    return fmt::format("synthetic: one batch of {} made from seed {}, the same at every step",
                       batch_, seed_);
  }

  uint64_t Fingerprint() const override { return HashString("synthetic"); }

 private:
  Graph graph_;
  int64_t batch_;
  uint64_t seed_;
};

class FileSource : public DataSource {
 public:
  FileSource(const Graph& graph, const DataOptions& options)
      : rows_(OpenRows(graph, options.path, options.seed)) {
    for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
      const Value& value = graph.value(id);
      types_[value.name] = ToTorch(value.type.dtype);
    }
  }

  Batch Rows(int64_t step, Block rows) const override {
    Batch batch;
    for (const auto& [name, tensor] : rows_->Rows(step, rows))
      batch[name] = ToTorchTensor(tensor).to(types_.at(name));
    return batch;
  }

  std::string Describe() const override { return rows_->Describe(); }
  uint64_t Fingerprint() const override { return rows_->Fingerprint(); }

 private:
  std::unique_ptr<RowSource> rows_;
  std::map<std::string, at::ScalarType> types_;  // of the model's inputs
};

}  // namespace

std::unique_ptr<DataSource> OpenData(const Graph& graph, const DataOptions& options) {
  if (options.path.empty()) return std::make_unique<SyntheticSource>(graph, options.seed);
  return std::make_unique<FileSource>(graph, options);
}

}  // namespace heddle
