#include "ops/rebatch.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/integers.h"
#include "ops/analysis.h"
#include "ops/dim_part.h"
#include "ops/op.h"

namespace heddle {
namespace {

using Marks = std::vector<std::optional<BatchPart>>;

[[noreturn]] void Forbid(const Graph& graph, const Node& node, const std::string& reason) {
  ThrowInput("the batch cannot change: {} '{}' {}", node.op, graph.value(node.results.front()).name,
             reason);
}

int64_t InputBatch(const Graph& graph) {
  int64_t batch = -1;
  std::string first;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    if (value.type.shape.empty())
      ThrowInput("the batch cannot change: input '{}' is a scalar", value.name);
    if (batch < 0) {
      batch = value.type.shape[0];
      first = value.name;
    } else if (value.type.shape[0] != batch) {
      ThrowInput("the batch cannot change: input '{}' begins with {}, '{}' with {}", first, batch,
                 value.name, value.type.shape[0]);
    }
  }
  if (batch < 1) ThrowInput("the batch cannot change: the model has no input with a batch");
  return batch;
}

// Follows the marks of one node between its tensors and its factors.
class NodeMarks {
 public:
  NodeMarks(const Graph& graph, const Node& node, const Rule& rule, int64_t batch)
      : graph_(graph), node_(node), rule_(rule), batch_(batch), factors_(rule.factors.size()) {}

  void Read(const Dims& dims, const Marks& marks) {
    for (size_t d = 0; d < marks.size(); ++d) {
      if (!marks[d]) continue;
      if (dims[d].terms.size() != 1) Forbid(graph_, node_, "cuts or joins along the batch");
      DimPart part{marks[d]->outer, batch_, marks[d]->inner};
      std::optional<FactorPart> found =
          FindInProduct(rule_, dims[d].terms[0], part, PartFit::kWhole);
      if (!found) Forbid(graph_, node_, "regroups elements across the batch");
      size_t factor = ToSize(found->factor);
      BatchPart inside{found->part.outer, found->part.inner};
      std::optional<BatchPart>& held = factors_[factor];
      if (held && *held != inside) Forbid(graph_, node_, "sees the batch in two places");
      held = inside;
      if (rule_.factors[factor].kind == FactorKind::kWhole) {
        Forbid(graph_, node_, "mixes samples along the batch");
      }
    }
  }

  Marks Write(const Dims& dims) const {
    Marks marks(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      for (const Product& term : dims[d].terms) {
        for (int f : term) {
          const std::optional<BatchPart>& held = factors_[ToSize(f)];
          if (!held) continue;
          if (dims[d].terms.size() != 1) Forbid(graph_, node_, "cuts or joins along the batch");
          if (marks[d]) Forbid(graph_, node_, "sees the batch in two places");
          DimPart part = *InDimension(rule_, term, f, {held->outer, batch_, held->inner});
          marks[d] = BatchPart{part.outer, part.inner};
        }
      }
    }
    return marks;
  }

  const Marks& factors() const { return factors_; }

 private:
  const Graph& graph_;
  const Node& node_;
  const Rule& rule_;
  int64_t batch_;
  Marks factors_;
};

class Finder {
 public:
  Finder(const Graph& graph, const Rules& rules)
      : graph_(graph), rules_(rules), readers_(Readers(graph)), queued_(graph.nodes.size(), false) {
    info_.size = InputBatch(graph);
    if (info_.size == 1) ThrowInput("the batch cannot be seen in a model of batch 1");
    info_.factors.resize(graph.nodes.size());
    for (const Value& value : graph.values) info_.dims.emplace_back(value.type.shape.size());
  }

  BatchInfo Run() {
    for (ValueId id : graph_.ValuesOf(ValueKind::kInput)) {
      Marks marks(graph_.value(id).type.shape.size());
      marks[0] = BatchPart{};
      Mark(id, marks, nullptr);
    }
    // Positions in the queue ascend, so that most nodes are visited once.
    while (!queue_.empty()) {
      std::vector<NodeId> round = std::move(queue_);
      queue_.clear();
      std::sort(round.begin(), round.end());
      for (NodeId id : round) {
        queued_[id.index()] = false;
        Visit(id);
      }
    }
    return std::move(info_);
  }

 private:
  void Visit(NodeId id) {
    const Node& node = graph_.node(id);
    const Rule& rule = rules_[id.index()];
    NodeMarks marks(graph_, node, rule, info_.size);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      marks.Read(rule.operands[o], info_.dims[node.operands[o].index()]);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      marks.Read(rule.results[r], info_.dims[node.results[r].index()]);
    }
    for (size_t o = 0; o < node.operands.size(); ++o) {
      Mark(node.operands[o], marks.Write(rule.operands[o]), &node);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      Mark(node.results[r], marks.Write(rule.results[r]), &node);
    }
    info_.factors[id.index()] = marks.factors();
  }

  void Mark(ValueId id, const Marks& marks, const Node* by) {
    Marks& held = info_.dims[id.index()];
    const Value& value = graph_.value(id);
    bool changed = false;
    for (size_t d = 0; d < marks.size(); ++d) {
      if (!marks[d] || held[d] == marks[d]) continue;
      if (value.kind == ValueKind::kParameter || value.kind == ValueKind::kConstant) {
        Forbid(graph_, *by,
               std::string("reads ") +
                   (value.kind == ValueKind::kParameter ? "parameter" : "constant") + " '" +
                   value.name + "', which is as long as the batch");
      }
      if (held[d]) Forbid(graph_, *by, "sees the batch in two places");
      held[d] = marks[d];
      changed = true;
    }
    if (!changed) return;
    if (value.producer.valid()) Queue(value.producer);
    for (NodeId reader : readers_[id.index()]) Queue(reader);
  }

  void Queue(NodeId id) {
    if (queued_[id.index()]) return;
    queued_[id.index()] = true;
    queue_.push_back(id);
  }

  const Graph& graph_;
  const Rules& rules_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> queued_;
  std::vector<NodeId> queue_;
  BatchInfo info_;
};

// The shape with every marked dimension stretched.
Shape Stretched(const Shape& shape, const Marks& marks, int64_t from, int64_t to) {
  Shape stretched = shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (marks[d]) stretched[d] = CheckedMul(shape[d] / from, to, "a dimension");
  }
  return stretched;
}

// Copies a graph node by node; what changes are the types of inputs and the shapes in attributes.
class Copier {
 public:
  explicit Copier(const Graph& from) : from_(from), moved_(from.values.size()) {
    to_.name = from.name;
  }

  void AddSource(ValueId id, Shape shape) {
    const Value& value = from_.value(id);
    moved_[id.index()] =
        to_.AddValue(value.name, {value.type.dtype, std::move(shape)}, value.kind, value.data);
    to_.value(moved_[id.index()]).data_hash = value.data_hash;
  }

  std::vector<TensorType> OperandTypes(const Node& node) const {
    std::vector<TensorType> types;
    for (ValueId id : node.operands) types.push_back(to_.value(moved_[id.index()]).type);
    return types;
  }

  // `shape` replaces the attribute of that name.
  std::vector<TensorType> AddNode(const Node& node, const std::optional<Shape>& shape) {
    Attributes attributes = node.attributes;
    if (shape) attributes["shape"] = *shape;
    std::vector<TensorType> types;
    try {
      types = ResultTypes(*rules_.Of(node.op, attributes, OperandTypes(node)));
    } catch (const InputError& error) {
      Forbid(from_, node, error.what());
    }
    std::vector<ValueId> operands;
    for (ValueId id : node.operands) operands.push_back(moved_[id.index()]);
    NodeId made = to_.AddNode(node.op, std::move(attributes), std::move(operands));
    for (size_t r = 0; r < node.results.size(); ++r) {
      moved_[node.results[r].index()] =
          to_.AddResult(made, from_.value(node.results[r]).name, types[r]);
    }
    return types;
  }

  Graph Finish() {
    for (ValueId output : from_.outputs) to_.outputs.push_back(moved_[output.index()]);
    return std::move(to_);
  }

 private:
  const Graph& from_;
  Graph to_;
  RuleMaker rules_;
  std::vector<ValueId> moved_;
};

bool HasShape(const Node& node) { return node.attributes.count("shape") != 0; }

Graph Stretch(const Graph& graph, const BatchInfo& info, int64_t batch) {
  Copier copier(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    ValueId id{static_cast<int32_t>(v)};
    const Value& value = graph.values[v];
    if (!value.producer.valid()) {
      copier.AddSource(id, Stretched(value.type.shape, info.dims[v], info.size, batch));
    }
  }
  for (const Node& node : graph.nodes) {
    std::vector<Shape> expected;
    for (ValueId id : node.results) {
      expected.push_back(
          Stretched(graph.value(id).type.shape, info.dims[id.index()], info.size, batch));
    }
    std::optional<Shape> shape;
    if (HasShape(node)) shape = expected[0];
    std::vector<TensorType> types = copier.AddNode(node, shape);
    for (size_t r = 0; r < types.size(); ++r) {
      if (types[r].shape != expected[r]) {
        Forbid(graph, node,
               "would give " + ToString(types[r].shape) + " where " + ToString(expected[r]) +
                   " is expected");
      }
    }
  }
  return copier.Finish();
}

// Where the batch goes in a reshape of a model of batch 1: its place among the elements stays. A dimension of
// size 1 there takes it; at the very front, the first dimension; otherwise there may be only one that can.
Marks ReshapeMarks(const Graph& graph, const Node& node, const Marks& marks) {
  const Shape& from = graph.value(node.operands[0]).type.shape;
  const Shape& to = graph.value(node.results[0]).type.shape;
  Marks result(to.size());
  int64_t before = 1;
  for (size_t d = 0; d < from.size(); before *= from[d++]) {
    if (!marks[d]) continue;
    int64_t outer = before * marks[d]->outer, reached = 1;
    std::vector<std::pair<size_t, BatchPart>> candidates;
    std::optional<std::pair<size_t, BatchPart>> chosen;
    for (size_t t = 0; t < to.size() && reached > 0; reached *= to[t++]) {
      int64_t share = outer % reached == 0 ? outer / reached : 0;
      if (share < 1 || share > to[t] || to[t] % share != 0) continue;
      candidates.push_back({t, {share, to[t] / share}});
      if (!chosen && reached == outer && (to[t] == 1 || outer == 1)) chosen = candidates.back();
    }
    if (!chosen && candidates.size() == 1) chosen = candidates[0];
    if (!chosen)
      Forbid(graph, node, "may take the batch in several places; export it with a batch of 2");
    result[chosen->first] = chosen->second;
  }
  return result;
}

// A model of batch 1 as one of batch 2, followed forwards from its inputs.
Graph FromOneToTwo(const Graph& graph) {
  Copier copier(graph);
  std::vector<Marks> marks;
  for (const Value& value : graph.values) marks.emplace_back(value.type.shape.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    ValueId id{static_cast<int32_t>(v)};
    const Value& value = graph.values[v];
    if (value.producer.valid()) continue;
    if (value.kind == ValueKind::kInput) marks[v][0] = BatchPart{1, 1};
    copier.AddSource(id, Stretched(value.type.shape, marks[v], 1, 2));
  }
  for (const Node& node : graph.nodes) {
    std::optional<Shape> shape;
    if (HasShape(node)) {
      const Shape& from = graph.value(node.operands[0]).type.shape;
      const Shape& to = graph.value(node.results[0]).type.shape;
      const Marks& operand = marks[node.operands[0].index()];
      Marks& result = marks[node.results[0].index()];
      if (TraitsOf(node.op).elements == ResultElements::kReshaped) {
        result = ReshapeMarks(graph, node, operand);
      } else {
        std::copy(operand.begin(), operand.end(),
                  result.end() - static_cast<std::ptrdiff_t>(from.size()));
      }
      shape = Stretched(to, result, 1, 2);
    }
    std::vector<TensorType> types = copier.OperandTypes(node);
    copier.AddNode(node, shape);
    if (shape) continue;
    Rule rule = MakeRule(node.op, node.attributes, types);
    NodeMarks follow(graph, node, rule, 2);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      follow.Read(rule.operands[o], marks[node.operands[o].index()]);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      marks[node.results[r].index()] = follow.Write(rule.results[r]);
    }
  }
  return copier.Finish();
}

}  // namespace

BatchInfo FindBatch(const Graph& graph) { return FindBatch(graph, MakeRules(graph)); }

BatchInfo FindBatch(const Graph& graph, const Rules& rules) { return Finder(graph, rules).Run(); }

Graph Rebatch(const Graph& graph, int64_t batch) {
  if (batch < 1) ThrowInput("a batch of {}: it must be at least 1", batch);
  if (InputBatch(graph) == batch) return graph;
  if (InputBatch(graph) > 1) return Stretch(graph, FindBatch(graph), batch);
  Graph two = FromOneToTwo(graph);
  return Stretch(two, FindBatch(two), batch);
}

}  // namespace heddle
