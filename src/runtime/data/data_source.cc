#include "runtime/data/data_source.h"

#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/permutation.h"
#include "graph/safetensors.h"
#include "runtime/data/batch.h"
#include "runtime/data/tensor_source.h"
#include "runtime/data/token_source.h"

namespace heddle {
namespace {

class SyntheticSource : public DataSource {
 public:
  SyntheticSource(const Graph& graph, uint64_t seed) : batch_(BatchOf(graph)), seed_(seed) {
    // The inputs and how they are read; no weights.
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

// By its name, or by the length of a header and the { it begins with.
bool IsSafetensors(const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  std::error_code ignored;
  if (path.ends_with(".bin") || path.ends_with(".idx")) return false;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  MappedFile file = MappedFile::Open(path);
  auto bytes = file.bytes();
  if (bytes.size() < 10) return false;
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header <= static_cast<uint64_t>(kMaxSafetensorsHeader) && header <= bytes.size() - 8 &&
         bytes[8] == std::byte{'{'};
}

}  // namespace

std::unique_ptr<DataSource> OpenData(const Graph& graph, const DataOptions& options) {
  if (options.path.empty()) return std::make_unique<SyntheticSource>(graph, options.seed);
  if (IsSafetensors(options.path)) {
    return std::make_unique<TensorSource>(graph, options.path, options.seed);
  }
  return std::make_unique<TokenSource>(graph, options.path, options.seed);
}

uint64_t FingerprintOf(std::span<const std::byte> bytes) {
  constexpr size_t kPieces = 1024, kPieceBytes = 4096;
  if (bytes.size() <= kPieces * kPieceBytes) return HashBytes(bytes.data(), bytes.size());
  uint64_t hash = bytes.size();
  size_t stride = (bytes.size() - kPieceBytes) / (kPieces - 1);
  for (size_t piece = 0; piece < kPieces; ++piece)
    hash = HashCombine(hash, HashBytes(bytes.data() + piece * stride, kPieceBytes));
  return hash;
}

int64_t BatchOf(const Graph& graph) {
  std::vector<ValueId> inputs = graph.ValuesOf(ValueKind::kInput);
  if (inputs.empty()) ThrowInput("the model has no inputs: there is nothing to train on");
  const Value& first = graph.value(inputs[0]);
  for (ValueId id : inputs) {
    const Value& input = graph.value(id);
    if (ElementCount(input.type.shape, input.name) == 0) {
      ThrowInput("input '{}' {} is empty: there is nothing to train on", input.name,
                 ToString(input.type));
    }
    if (input.type.shape.empty() || input.type.shape[0] != first.type.shape[0]) {
      ThrowInput("inputs '{}' {} and '{}' {} differ in the batch, which is dimension 0 of each",
                 first.name, ToString(first.type), input.name, ToString(input.type));
    }
  }
  return first.type.shape[0];
}

int64_t SeededPlace(int64_t index, int64_t size, uint64_t seed) {
  auto epoch = static_cast<uint64_t>(index / size);
  return Permutation(size, seed, HashCombine(HashString("data order"), epoch))(index % size);
}

}  // namespace heddle
