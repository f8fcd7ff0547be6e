#include "frontend/onnx/ops.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace heddle {
namespace {

const std::unordered_map<std::string_view, const OpImport*>& OpsByName() {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const OpImport*>;
    for (auto family :
         {OnnxElementwiseOps, OnnxConstantOps, OnnxMovementOps, OnnxIndexingOps, OnnxContractionOps,
          OnnxPoolingOps, OnnxNormalisationOps, OnnxReductionOps, OnnxSequenceOps}) {
      for (const OpImport& op : family()) {
        HEDDLE_CHECK(map->emplace(op.name, &op).second, "{} is listed twice", op.name);
      }
    }
    return map;
  }();
  return *index;
}

}  // namespace

const OpImport* FindOnnxOp(std::string_view name) {
  const auto it = OpsByName().find(name);
  return it == OpsByName().end() ? nullptr : it->second;
}

std::vector<std::string_view> AllOnnxOps() {
  std::vector<std::string_view> names;
  for (const auto& [name, op] : OpsByName()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace heddle
