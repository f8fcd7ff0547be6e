#include "runtime/data/batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/hash.h"
#include "graph/safetensors.h"
#include "host/data/input_use.h"
#include "host/data/tensor_source.h"
#include "runtime/initialise.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

at::Tensor SyntheticInput(const Graph& graph, ValueId id, const Shape& shape, uint64_t seed,
                          int64_t first) {
  const Value& value = graph.value(id);
  uint64_t stream = HashString("input." + value.name);
  at::ScalarType dtype = ToTorch(value.type.dtype);
  if (IsFloat(value.type.dtype)) return SeededNormal(shape, seed, stream, first).to(dtype);
  InputRange range = RangeOf(graph, id);
  int64_t bound = range.high == 0 ? 2 : range.high;
  return SeededIntegers(shape, bound, seed, stream, first).to(dtype);
}

}  // namespace

Batch ReadBatch(const Graph& graph, const std::string& path) {
  SafetensorsFile file = SafetensorsFile::Open(path);
  Batch batch;
  std::vector<std::string> problems;
  for (const TensorMatch& match : MatchTensors(graph, file)) {
    if (match.batches != 1) {
      ThrowInput("{}: '{}' holds {} batches of {}; one is wanted here", path, match.tensor,
                 match.batches, ToString(match.type));
    }
    HostTensor tensor = file.Load(match.tensor);
    std::string wrong = OutOfRange(match.input, match.range, tensor);
    if (!wrong.empty()) problems.push_back(wrong);
    batch[match.input] = ToTorchTensor(tensor).to(ToTorch(match.type.dtype));
  }
  if (!problems.empty()) ThrowInput("{}: {}", path, fmt::join(problems, "; "));
  return batch;
}

Batch RowsOf(const Batch& batch, Block rows) {
  Batch part;
  for (const auto& [name, tensor] : batch) part[name] = tensor.narrow(0, rows.begin, rows.size());
  return part;
}

Batch SyntheticBatch(const Graph& graph, uint64_t seed) {
  Batch batch;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    batch[value.name] = SyntheticInput(graph, id, value.type.shape, seed, 0);
  }
  return batch;
}

Batch SyntheticRows(const Graph& graph, uint64_t seed, Block rows) {
  Batch batch;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    Shape shape = value.type.shape;
    shape[0] = 1;
    int64_t row = ElementCount(shape, value.name);
    shape[0] = rows.size();
    batch[value.name] = SyntheticInput(graph, id, shape, seed, rows.begin * row);
  }
  return batch;
}

}  // namespace heddle
