#include "plan/pruning.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"

namespace heddle {
namespace {

// Counts the weights along the dimensions from `dim` on; `at` is the first of them.
int64_t CountKept(std::span<const std::byte> mask, const Shape& shape, const Tile& tile, size_t dim,
                  int64_t at) {
  if (dim == shape.size()) return mask[static_cast<size_t>(at)] != std::byte{0} ? 1 : 0;
  int64_t stride = 1, count = 0;
  for (size_t d = dim + 1; d < shape.size(); ++d) stride *= shape[d];
  for (const Block& range : tile[dim]) {
    if (dim + 1 == shape.size()) {
      auto first = mask.begin() + at;
      count += (range.end - range.begin) -
               std::count(first + range.begin, first + range.end, std::byte{0});
      continue;
    }
    for (int64_t i = range.begin; i < range.end; ++i) {
      count += CountKept(mask, shape, tile, dim + 1, at + i * stride);
    }
  }
  return count;
}

}  // namespace

bool IsPrunable(const Model& model, ValueId parameter) {
  const Value& value = model.graph.value(parameter);
  return value.kind == ValueKind::kParameter && model.flow.needed[parameter.index()] &&
         value.type.shape.size() >= 2;
}

double LeastKept(const Pruning& pruning, const Graph& graph) {
  double least = 1;
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    const Value& value = graph.value(id);
    auto found = pruning.kept.find(value.name);
    if (found == pruning.kept.end()) continue;
    auto all = static_cast<double>(ElementCount(value.type.shape, value.name));
    least = std::min(least, static_cast<double>(found->second) / all);
  }
  return least;
}

int64_t KeptOf(int64_t elements, double sparsity) {
  return std::max<int64_t>(1, std::llround((1 - sparsity) * static_cast<double>(elements)));
}

Pruning PruneAll(const Model& model, double sparsity) {
  if (!(sparsity >= 0 && sparsity < 1)) {
    ThrowInput("a sparsity of {}: give the share of weights that are pruned, from 0 to below 1",
               sparsity);
  }
  Pruning pruning;
  if (sparsity == 0) return pruning;
  pruning.sparsity = sparsity;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    const Value& value = model.graph.value(id);
    if (IsPrunable(model, id))
      pruning.kept[value.name] = KeptOf(ElementCount(value.type.shape, value.name), sparsity);
  }
  return pruning;
}

Mask Mask::Open(const std::string& path, const Model& model) {
  Mask mask(SafetensorsFile::Open(path));
  double all = 0, kept = 0;
  std::map<std::string, ValueId> parameters;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    parameters.emplace(model.graph.value(id).name, id);
  }
  if (mask.file_.tensors().empty()) ThrowInput("{}: no masks in it", path);
  for (const SafetensorsEntry& entry : mask.file_.tensors()) {
    auto found = parameters.find(entry.name);
    if (found == parameters.end()) {
      ThrowInput("{}: '{}': the model '{}' has no such parameter: it is a mask of another", path,
                 entry.name, model.graph.name);
    }
    const Value& value = model.graph.value(found->second);
    if (entry.type.dtype != DType::kBool) {
      ThrowInput("{}: '{}': {}: a mask is of type BOOL", path, entry.name, Name(entry.type.dtype));
    }
    if (entry.type.shape != value.type.shape) {
      ThrowInput("{}: '{}': a mask of shape {}, the parameter has {}", path, entry.name,
                 ToString(entry.type.shape), ToString(value.type.shape));
    }
    if (!model.flow.needed[found->second.index()]) {
      ThrowInput("{}: '{}': the parameter is not trained: leave it out", path, entry.name);
    }
    std::span<const std::byte> bytes = mask.file_.Bytes(entry.name);
    int64_t zeros = std::count(bytes.begin(), bytes.end(), std::byte{0});
    int64_t ones = std::count(bytes.begin(), bytes.end(), std::byte{1});
    auto elements = static_cast<int64_t>(bytes.size());
    if (zeros + ones != elements) ThrowInput("{}: '{}': neither 0 nor 1", path, entry.name);
    if (ones == 0) ThrowInput("{}: '{}': nothing of it is kept", path, entry.name);
    mask.pruning_.kept[entry.name] = ones;
    mask.hash_ = HashCombine(mask.hash_, HashString(entry.name));
    mask.hash_ = HashCombine(mask.hash_, HashBytes(bytes.data(), bytes.size()));
    all += static_cast<double>(elements);
    kept += static_cast<double>(ones);
  }
  mask.pruning_.sparsity = 1 - kept / all;
  return mask;
}

std::span<const std::byte> Mask::Of(const std::string& parameter) const {
  if (file_.Find(parameter) == nullptr) return {};
  return file_.Bytes(parameter);
}

int64_t Mask::CountIn(const std::string& parameter, const Tile& tile) const {
  return CountKept(Of(parameter), file_.Find(parameter)->type.shape, tile, 0, 0);
}

}  // namespace heddle
