#include "host/data/row_source.h"

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/permutation.h"
#include "graph/safetensors.h"
#include "host/data/tensor_source.h"
#include "host/data/token_source.h"

namespace heddle {
namespace {

// By its name, or by its first bytes: the length of a header, then the { that a header begins with.
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

std::unique_ptr<RowSource> OpenRows(const Graph& graph, const std::string& path, uint64_t seed) {
  if (IsSafetensors(path)) return std::make_unique<TensorSource>(graph, path, seed);
  return std::make_unique<TokenSource>(graph, path, seed);
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
