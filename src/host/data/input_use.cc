#include "host/data/input_use.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ops/op.h"

namespace heddle {
namespace {

using Offsets = std::map<ValueId, int64_t>;

size_t Axis(int64_t axis, const Shape& shape) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
}

// Dimension 0 is the batch, unless it is the only one (batch x sequence as one).
bool AlongSequence(size_t axis, const Shape& shape) { return axis > 0 || shape.size() == 1; }

// The position in operand `o`, along the sequence, at which result `r` of a node begins. Ignores dimensions of size
// `except`. Nothing where the result has no elements of the operand.
std::optional<int64_t> OriginAlongSequence(const Graph& graph, const Node& node, size_t o, size_t r,
                                           int64_t except = -1) {
  const OpTraits& traits = TraitsOf(node.op);
  if (traits.origin == nullptr) return std::nullopt;
  std::vector<TensorType> types;
  for (ValueId id : node.operands) types.push_back(graph.value(id).type);
  auto origin = traits.origin(OpContext{node.attributes, types}, o, r);
  if (!origin) return std::nullopt;
  int64_t along = 0;
  for (size_t d = 0; d < origin->size(); ++d) {
    const Shape& shape = types[o].shape;
    if (AlongSequence(d, shape) && shape[d] != except) along += (*origin)[d];
  }
  return along;
}

// Records the offsets of a node's results, given that its operand `o` has the offset `offset`.
void Pass(const Graph& graph, const Node& node, size_t o, int64_t offset, Offsets& offsets) {
  for (size_t r = 0; r < node.results.size(); ++r) {
    if (auto origin = OriginAlongSequence(graph, node, o, r)) {
      offsets.emplace(node.results[r], offset + *origin);
    }
  }
}

// The offset of the logits against the sequence they are computed from.
int64_t LogitsOffset(const Graph& graph, ValueId logits, int64_t classes) {
  int64_t offset = 0;
  while (graph.value(logits).producer.valid()) {
    const Node& node = graph.node(graph.value(logits).producer);
    const OpTraits& traits = TraitsOf(node.op);
    bool probabilities = traits.cross_entropy == CrossEntropyPart::kLogProbabilities;
    bool moved = traits.elements != ResultElements::kComputed && node.results.size() == 1;
    if (!probabilities && !moved) break;
    offset += OriginAlongSequence(graph, node, 0, 0, classes).value_or(0);
    logits = node.operands[0];
  }
  return offset;
}

std::optional<InputUse> UseAt(const Graph& graph, NodeId id, size_t o, int64_t offset) {
  const Node& node = graph.node(id);
  if (o != 1) return {};
  const Shape& first = graph.value(node.operands[0]).type.shape;
  const OpTraits& traits = TraitsOf(node.op);
  InputUse use{InputUse::Kind::kLabel, id, 0, {}, offset};
  if (traits.lookup == LookupKind::kRows) {
    use.kind = InputUse::Kind::kTable;
    use.bound = first[Axis(IntAttr(node.attributes, "axis", 0), first)];
    return use;
  }
  bool labels = traits.cross_entropy == CrossEntropyPart::kLikelihood ||
                traits.cross_entropy == CrossEntropyPart::kWhole;
  if (labels) {
    use.bound = first[1];
    use.ignored = IntAttr(node.attributes, "ignore_index", -100);
  } else if (traits.lookup == LookupKind::kElements) {
    use.bound = first[Axis(IntAttr(node.attributes, "axis", 0), first)];
  } else {
    return {};
  }
  use.shift -= LogitsOffset(graph, node.operands[0], use.bound);
  return use;
}

void Narrow(InputRange& range, const InputRange& by) {
  range.low = range.high == 0 ? by.low : std::max(range.low, by.low);
  range.high = range.high == 0 ? by.high : std::min(range.high, by.high);
  if (by.ignored) range.ignored = by.ignored;
}

}  // namespace

std::vector<InputUse> UsesOf(const Graph& graph, ValueId input) {
  Offsets offsets = {{input, 0}};
  std::vector<InputUse> uses;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (size_t o = 0; o < node.operands.size(); ++o) {
      auto found = offsets.find(node.operands[o]);
      if (found == offsets.end()) continue;
      auto use = UseAt(graph, NodeId::FromIndex(n), o, found->second);
      if (use && use->bound > 0) uses.push_back(*use);
      Pass(graph, node, o, found->second, offsets);
    }
  }
  return uses;
}

InputRange RangeOf(const Graph& graph, ValueId input) {
  InputRange range;
  for (const InputUse& use : UsesOf(graph, input)) {
    // A Gather accepts negative indices, which count from the end. A negative token in a file is still an error.
    Narrow(range, {0, use.bound, use.ignored});
  }
  return range;
}

}  // namespace heddle
