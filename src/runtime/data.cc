#include "runtime/data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "graph/safetensors.h"
#include "ops/op.h"
#include "runtime/initialise.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

void Narrow(InputRange& range, const InputRange& by) {
  if (by.high == 0) return;
  range.low = range.high == 0 ? by.low : std::max(range.low, by.low);
  range.high = range.high == 0 ? by.high : std::min(range.high, by.high);
  if (by.ignored) range.ignored = by.ignored;
}

std::string OutOfRange(const Graph& graph, ValueId id, const at::Tensor& tensor) {
  InputRange range = RangeOf(graph, id);
  if (range.high == 0 || tensor.is_floating_point() || tensor.numel() == 0) return "";
  at::Tensor wrong = (tensor < range.low).logical_or(tensor >= range.high);
  if (range.ignored) wrong = wrong.logical_and(tensor != *range.ignored);
  if (!wrong.any().item<bool>()) return "";
  int64_t value = tensor.masked_select(wrong)[0].item<int64_t>();
  return fmt::format("'{}' holds {}, the model takes {} to {}", graph.value(id).name, value, range.low,
                     range.high - 1);
}

}  // namespace

InputRange RangeOf(const Graph& graph, ValueId input) {
  InputRange range;
  for (const Node& node : graph.nodes) {
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (node.operands[o] != input) continue;
      const Shape& first = graph.value(node.operands[0]).type.shape;
      if (node.op == "Gather" && o == 1) {
        int64_t axis = IntAttr(node.attributes, "axis", 0);
        int64_t rows = first[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(first.size()) : axis)];
        Narrow(range, {-rows, rows, {}});
      } else if ((node.op == "CrossEntropy" || node.op == "NllLoss") && o == 1) {
        Narrow(range, {0, first[1], IntAttr(node.attributes, "ignore_index", -100)});
      } else if (node.op == "Reshape" || node.op == "Cast" || node.op == "Transpose" ||
                 node.op == "Expand") {
        Narrow(range, RangeOf(graph, node.results[0]));
      }
    }
  }
  return range;
}

Batch ReadBatch(const Graph& graph, const std::string& path) {
  SafetensorsFile file = SafetensorsFile::Open(path);
  Batch batch;
  std::vector<std::string> problems;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    const SafetensorsEntry* entry = file.Find(value.name);
    if (entry == nullptr) entry = file.Find("input." + value.name);
    if (entry == nullptr) {
      problems.push_back(fmt::format("no tensor '{}' or 'input.{}'", value.name, value.name));
    } else if (entry->type.shape != value.type.shape) {
      problems.push_back(fmt::format("'{}' is {} but the model takes {}", entry->name,
                                     ToString(entry->type), ToString(value.type)));
    } else if (IsFloat(entry->type.dtype) != IsFloat(value.type.dtype)) {
      problems.push_back(fmt::format("'{}' is {} but the model takes {}", entry->name,
                                     ToString(entry->type), ToString(value.type)));
    } else {
      at::Tensor tensor = ToTorchTensor(file.Load(entry->name)).to(ToTorch(value.type.dtype));
      if (std::string wrong = OutOfRange(graph, id, tensor); !wrong.empty()) problems.push_back(wrong);
      batch[value.name] = tensor;
    }
  }
  if (!problems.empty()) ThrowInput("{}: {}", path, fmt::join(problems, "; "));
  return batch;
}

Batch SyntheticBatch(const Graph& graph, uint64_t seed) {
  Batch batch;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    uint64_t stream = HashString("input." + value.name);
    if (IsFloat(value.type.dtype)) {
      batch[value.name] = SeededNormal(value.type.shape, seed, stream).to(ToTorch(value.type.dtype));
    } else {
      InputRange range = RangeOf(graph, id);
      int64_t bound = range.high == 0 ? 2 : range.high;
      batch[value.name] =
          SeededIntegers(value.type.shape, bound, seed, stream).to(ToTorch(value.type.dtype));
    }
  }
  return batch;
}

}  // namespace heddle
