#include "ops/rules.h"

#include <algorithm>
#include <functional>

#include "ops/op.h"

namespace heddle {
namespace {

void Mix(uint64_t& hash, uint64_t part) {
  hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 29;
}

template <class T>
void MixAttribute(uint64_t& hash, const T& attribute) {
  Mix(hash, std::hash<T>()(attribute));
}

template <class T>
void MixAttribute(uint64_t& hash, const std::vector<T>& attribute) {
  for (T item : attribute) Mix(hash, std::hash<T>()(item));
}

uint64_t HashOf(std::string_view op, const Attributes& attributes,
                std::span<const TensorType> operands) {
  uint64_t hash = std::hash<std::string_view>()(op);
  for (const auto& [name, attribute] : attributes) {
    Mix(hash, std::hash<std::string>()(name));
    std::visit([&](const auto& held) { MixAttribute(hash, held); }, attribute);
  }
  for (const TensorType& type : operands) {
    Mix(hash, static_cast<uint64_t>(type.dtype));
    for (int64_t size : type.shape) Mix(hash, static_cast<uint64_t>(size));
  }
  return hash;
}

}  // namespace

SharedRule RuleMaker::Of(std::string_view op, const Attributes& attributes,
                         std::span<const TensorType> operands) {
  uint64_t hash = HashOf(op, attributes, operands);
  auto [first, last] = made_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Made& made = at->second;
    if (made.op == op &&
        std::equal(made.operands.begin(), made.operands.end(), operands.begin(), operands.end()) &&
        made.attributes == attributes) {
      return made.rule;
    }
  }
  auto rule = std::make_shared<const Rule>(MakeRule(op, attributes, operands));
  made_.emplace(hash, Made{std::string(op), attributes, {operands.begin(), operands.end()}, rule});
  return rule;
}

SharedRule RuleMaker::Of(const Graph& graph, const Node& node) {
  types_.resize(node.operands.size());  // shapes that are there keep their memory
  for (size_t o = 0; o < types_.size(); ++o) types_[o] = graph.value(node.operands[o]).type;
  return Of(node.op, node.attributes, types_);
}

}  // namespace heddle
