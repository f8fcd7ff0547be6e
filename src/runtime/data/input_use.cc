#include "runtime/data/input_use.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace heddle {
namespace {

using Offsets = std::map<ValueId, int64_t>;

bool OneOf(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

size_t Axis(int64_t axis, const Shape& shape) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
}

// Dimension 0 is the batch, unless it is the only one (batch x sequence as one).
bool AlongSequence(size_t axis, const Shape& shape) { return axis > 0 || shape.size() == 1; }

// What a Slice leaves out at the front, along the sequence and not along a dimension of size `except`.
int64_t SliceStart(const Node& node, const Shape& shape, int64_t except = -1) {
  std::vector<int64_t> starts = IntsAttr(node.attributes, "starts");
  std::vector<int64_t> axes = IntsAttr(node.attributes, "axes");
  int64_t start = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t axis = Axis(axes[i], shape);
    if (AlongSequence(axis, shape) && shape[axis] != except) start += starts[i];
  }
  return start;
}

int64_t PadFront(const Node& node, const Shape& shape) {
  std::vector<int64_t> pads = IntsAttr(node.attributes, "pads");
  int64_t front = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (AlongSequence(d, shape)) front += pads[d];
  }
  return front;
}

// Sizes along the axis of the operands of a Concat before `operand`.
int64_t ConcatFront(const Graph& graph, const Node& node, size_t operand) {
  const Shape& shape = graph.value(node.operands[operand]).type.shape;
  size_t axis = Axis(IntAttr(node.attributes, "axis"), shape);
  int64_t front = 0;
  for (size_t o = 0; o < operand && AlongSequence(axis, shape); ++o) {
    front += graph.value(node.operands[o]).type.shape[axis];
  }
  return front;
}

void PassSplit(const Node& node, const Shape& shape, int64_t offset, Offsets& offsets) {
  std::vector<int64_t> sizes = IntsAttr(node.attributes, "sizes");
  bool moves = AlongSequence(Axis(IntAttr(node.attributes, "axis"), shape), shape);
  for (size_t r = 0; r < node.results.size(); ++r) {
    offsets.emplace(node.results[r], offset);
    if (moves) offset += sizes[r];
  }
}

// Passes operand `o`, which is at `offset`, on to the results.
void Pass(const Graph& graph, const Node& node, size_t o, int64_t offset, Offsets& offsets) {
  const Shape& shape = graph.value(node.operands[o]).type.shape;
  const std::string& op = node.op;
  if (op == "Split") return PassSplit(node, shape, offset, offsets);
  if (op == "Slice") {
    offset += SliceStart(node, shape);
  } else if (op == "Pad") {
    offset -= PadFront(node, shape);
  } else if (op == "Concat") {
    offset -= ConcatFront(graph, node, o);
  } else if (!OneOf(op, {"Reshape", "Cast", "Transpose", "Expand", "Identity", "Clip"}) &&
             !(op == "Where" && o > 0)) {
    return;
  }
  offsets.emplace(node.results[0], offset);
}

// The offset of the logits against the sequence they are computed from.
int64_t LogitsOffset(const Graph& graph, ValueId logits, int64_t classes) {
  int64_t offset = 0;
  while (graph.value(logits).producer.valid()) {
    const Node& node = graph.node(graph.value(logits).producer);
    if (node.op == "Slice") {
      offset += SliceStart(node, graph.value(node.operands[0]).type.shape, classes);
    } else if (!OneOf(node.op, {"Reshape", "Cast", "Transpose", "Identity", "LogSoftmax"})) {
      break;
    }
    logits = node.operands[0];
  }
  return offset;
}

std::optional<InputUse> UseAt(const Graph& graph, NodeId id, size_t o, int64_t offset) {
  const Node& node = graph.node(id);
  if (o != 1) return {};
  const Shape& first = graph.value(node.operands[0]).type.shape;
  InputUse use{InputUse::Kind::kLabel, id, 0, {}, offset};
  if (node.op == "Gather") {
    use.kind = InputUse::Kind::kTable;
    use.bound = first[Axis(IntAttr(node.attributes, "axis", 0), first)];
    return use;
  }
  if (node.op == "CrossEntropy" || node.op == "NllLoss") {
    use.bound = first[1];
    use.ignored = IntAttr(node.attributes, "ignore_index", -100);
  } else if (node.op == "GatherElements") {
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
    // A Gather counts negative indices from the end; a token below 0 in a file is a mistake all the same.
    Narrow(range, {0, use.bound, use.ignored});
  }
  return range;
}

}  // namespace heddle
