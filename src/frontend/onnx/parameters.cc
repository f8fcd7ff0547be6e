#include "frontend/onnx/parameters.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "frontend/glob.h"
#include "frontend/onnx/import.h"

namespace heddle {
namespace {

constexpr auto kBufferNames = std::to_array<std::string_view>(
    {"*lifted_tensor*", "*inv_freq", "*running_mean", "*running_var", "*num_batches_tracked"});

struct Place {
  std::string_view op;
  size_t first;  // operands from here ...
  size_t last;   // ... to here
};

// Operands that are weights, however small they are.
constexpr auto kWeights = std::to_array<Place>({{"Conv", 1, 2},
                                                {"ConvTranspose", 1, 2},
                                                {"Gemm", 1, 2},
                                                {"MatMul", 0, 1},
                                                {"Gather", 0, 0},
                                                {"PRelu", 1, 1},
                                                {"LayerNormalization", 1, 2},
                                                {"InstanceNormalization", 1, 2},
                                                {"GroupNormalization", 1, 2},
                                                {"BatchNormalization", 1, 2}});

// Float operands that are not weights.
constexpr auto kBuffers = std::to_array<Place>({{"BatchNormalization", 3, 4},
                                                {"Clip", 1, 2},
                                                {"Dropout", 1, 2},
                                                {"OneHot", 1, 2},
                                                {"Pad", 2, 2},
                                                {"Range", 0, 2},
                                                {"Resize", 1, 2}});

template <size_t N>
bool IsAt(const std::array<Place, N>& places, std::string_view op, size_t operand) {
  return std::any_of(places.begin(), places.end(), [&](const Place& place) {
    return place.op == op && place.first <= operand && operand <= place.last;
  });
}

}  // namespace

ParameterRule::ParameterRule(const ModelFile& model, std::string_view file,
                             const ImportOptions& options)
    : uses_(model.names.size()), untrained_(kBufferNames.begin(), kBufferNames.end()) {
  for (const OpCall& node : model.calls) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (!node.operands[i].valid()) continue;
      Use& use = uses_[node.operands[i].index()];
      use.weight = use.weight || IsAt(kWeights, node.op, i);
      use.buffer = use.buffer || IsAt(kBuffers, node.op, i);
    }
  }
  for (const std::string& pattern : options.frozen) {
    const bool found = std::ranges::any_of(
        model.tensors, [&](const FileTensor& tensor) { return GlobMatch(pattern, tensor.name); });
    if (!found) ThrowInput("{}: --frozen {}: no initializer has such a name", file, pattern);
    untrained_.push_back(pattern);
  }
}

bool ParameterRule::IsTrainable(const FileTensor& tensor) const {
  if (!IsFloat(tensor.type.dtype) || tensor.type.shape.empty()) return false;
  const Use& use = uses_[tensor.id.index()];
  if (use.buffer) return false;
  if (ElementCount(tensor.type.shape) <= 1 && !use.weight) return false;
  return std::ranges::none_of(
      untrained_, [&](const std::string& pattern) { return GlobMatch(pattern, tensor.name); });
}

}  // namespace heddle
