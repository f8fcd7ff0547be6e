#include "frontend/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "ops/op.h"

namespace heddle {
namespace {

size_t Index(NodeId id) { return static_cast<size_t>(id.value); }
size_t Index(ValueId id) { return static_cast<size_t>(id.value); }

// Names no value has yet: prefix.0, prefix.1, ...
class FreshNames {
 public:
  FreshNames(const Graph& graph, std::string_view prefix) : prefix_(prefix) {
    for (const Value& value : graph.values) taken_.insert(value.name);
  }
  std::string Next() {
    std::string name;
    do {
      name = fmt::format("{}.{}", prefix_, count_++);
    } while (taken_.contains(name));
    return name;
  }

 private:
  std::string_view prefix_;
  std::set<std::string, std::less<>> taken_;
  int count_ = 0;
};

}  // namespace

Rewriter::Rewriter(Graph graph)
    : graph_(std::move(graph)), original_nodes_(graph_.nodes.size()), readers_(Readers(graph_)) {
  for (size_t n = 0; n < graph_.nodes.size(); ++n) position_.push_back(static_cast<int32_t>(n));
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    replacement_.push_back(ValueId{static_cast<int32_t>(v)});
  }
}

std::vector<NodeId> Rewriter::Nodes() const {
  std::vector<NodeId> ids;
  for (size_t n = 0; n < original_nodes_; ++n) ids.push_back(NodeId{static_cast<int32_t>(n)});
  return ids;
}

ValueId Rewriter::Resolve(ValueId id) const {
  while (replacement_[Index(id)] != id) id = replacement_[Index(id)];
  return id;
}

std::optional<NodeId> Rewriter::Producer(ValueId id, std::string_view op) const {
  NodeId producer = graph_.value(Resolve(id)).producer;
  if (!producer.valid() || graph_.node(producer).op != op) return std::nullopt;
  return producer;
}

bool Rewriter::Closed(const std::vector<NodeId>& interior, NodeId root) const {
  auto inside = [&](NodeId id) {
    return std::find(interior.begin(), interior.end(), id) != interior.end();
  };
  for (NodeId id : interior) {
    if (id == root) continue;
    for (ValueId result : node(id).results) {
      for (NodeId reader : readers_[Index(result)]) {
        if (!inside(reader) && reader != root) return false;
      }
      for (ValueId output : graph_.outputs) {
        if (Resolve(output) == result) return false;
      }
    }
  }
  return true;
}

std::optional<double> Rewriter::Splat(ValueId id) const {
  const Value& constant = value(id);
  if (constant.kind != ValueKind::kConstant || !constant.data) return std::nullopt;
  const HostTensor& data = *constant.data;
  if (data.size() == 0) return std::nullopt;
  size_t width = static_cast<size_t>(SizeOf(data.dtype));
  for (size_t at = width; at < data.data.size(); at += width) {
    if (!std::equal(data.data.begin(), data.data.begin() + static_cast<std::ptrdiff_t>(width),
                    data.data.begin() + static_cast<std::ptrdiff_t>(at))) {
      return std::nullopt;
    }
  }
  return AsDouble(data, 0);
}

ValueId Rewriter::Add(NodeId at, std::string_view op, Attributes attributes,
                      std::vector<ValueId> operands) {
  for (ValueId& operand : operands) operand = Resolve(operand);
  NodeId id{static_cast<int32_t>(graph_.nodes.size())};
  ValueId result = AddOp(graph_, op, std::move(attributes), std::move(operands),
                         fmt::format("~{}", fresh_++))
                       .front();
  position_.push_back(position_[Index(at)]);
  replacement_.resize(graph_.values.size());
  readers_.resize(graph_.values.size());
  for (ValueId made : node(id).results) replacement_[Index(made)] = made;
  for (ValueId operand : node(id).operands) readers_[Index(operand)].push_back(id);
  return result;
}

ValueId Rewriter::AddConstant(std::shared_ptr<const HostTensor> data) {
  TensorType type = data->type();
  ValueId id = graph_.AddValue(FreshNames(graph_, "const").Next(), std::move(type),
                               ValueKind::kConstant, std::move(data));
  replacement_.push_back(id);
  readers_.emplace_back();
  return id;
}

void Rewriter::Replace(ValueId old, ValueId with) {
  old = Resolve(old);
  with = Resolve(with);
  if (old == with) return;
  Value& from = graph_.value(old);
  Value& to = graph_.value(with);
  HEDDLE_CHECK(from.type == to.type, "replacing {} {} by {} {}", from.name, ToString(from.type),
               to.name, ToString(to.type));
  if (to.name.starts_with('~')) std::swap(from.name, to.name);
  replacement_[Index(old)] = with;
  for (NodeId reader : readers_[Index(old)]) readers_[Index(with)].push_back(reader);
  ++replaced_;
}

Graph Rewriter::Finish() {
  for (Node& node : graph_.nodes) {
    for (ValueId& operand : node.operands) operand = Resolve(operand);
  }
  for (ValueId& output : graph_.outputs) output = Resolve(output);

  // Nodes by position, each after the producers of its operands.
  std::vector<NodeId> order(graph_.nodes.size());
  for (size_t n = 0; n < order.size(); ++n) order[n] = NodeId{static_cast<int32_t>(n)};
  std::stable_sort(order.begin(), order.end(),
                   [&](NodeId a, NodeId b) { return position_[Index(a)] < position_[Index(b)]; });
  std::vector<bool> needed(graph_.nodes.size(), false), done(graph_.nodes.size(), false);
  std::vector<NodeId> stack;
  for (ValueId output : graph_.outputs) {
    if (graph_.value(output).producer.valid()) stack.push_back(graph_.value(output).producer);
  }
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    if (needed[Index(id)]) continue;
    needed[Index(id)] = true;
    for (ValueId operand : node(id).operands) {
      if (graph_.value(operand).producer.valid()) stack.push_back(graph_.value(operand).producer);
    }
  }
  std::vector<NodeId> sorted;
  for (NodeId start : order) {
    if (!needed[Index(start)]) continue;
    stack.push_back(start);
    while (!stack.empty()) {
      NodeId id = stack.back();
      bool ready = true;
      for (ValueId operand : node(id).operands) {
        NodeId producer = graph_.value(operand).producer;
        if (producer.valid() && !done[Index(producer)]) {
          stack.push_back(producer);
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      if (!done[Index(id)]) sorted.push_back(id);
      done[Index(id)] = true;
    }
  }

  FreshNames fresh(graph_, "fused");
  Graph result;
  result.name = std::move(graph_.name);
  std::vector<bool> used(graph_.values.size(), false);
  for (NodeId id : sorted) {
    for (ValueId operand : node(id).operands) used[Index(operand)] = true;
  }
  for (ValueId output : graph_.outputs) used[Index(output)] = true;
  std::vector<ValueId> moved(graph_.values.size());
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    Value& value = graph_.values[v];
    if (value.producer.valid() || !used[v]) continue;
    moved[v] = result.AddValue(std::move(value.name), value.type, value.kind, std::move(value.data));
    result.value(moved[v]).data_hash = value.data_hash;
  }
  for (NodeId id : sorted) {
    Node& from = graph_.node(id);
    std::vector<ValueId> operands;
    for (ValueId operand : from.operands) operands.push_back(moved[Index(operand)]);
    NodeId made = result.AddNode(std::move(from.op), std::move(from.attributes), std::move(operands));
    for (ValueId old : from.results) {
      Value& value = graph_.value(old);
      std::string name = value.name.starts_with('~') ? fresh.Next() : std::move(value.name);
      moved[Index(old)] = result.AddResult(made, std::move(name), value.type);
    }
  }
  for (ValueId output : graph_.outputs) result.outputs.push_back(moved[Index(output)]);
  return result;
}

Graph DropDead(Graph graph) { return Rewriter(std::move(graph)).Finish(); }

}  // namespace heddle
