#include "frontend/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ops/op.h"

namespace heddle {
namespace {

size_t Index(NodeId id) { return static_cast<size_t>(id.value); }
size_t Index(ValueId id) { return static_cast<size_t>(id.value); }

}  // namespace

FreshNames::FreshNames(const Graph& graph, std::string_view prefix) : prefix_(prefix) {
  for (const Value& value : graph.values) {
    if (value.name.starts_with(prefix)) taken_.insert(value.name);
  }
}

std::string FreshNames::Next() {
  std::string name;
  do {
    name = fmt::format("{}.{}", prefix_, count_++);
  } while (taken_.contains(name));
  return name;
}

Rewriter::Rewriter(Graph graph)
    : graph_(std::move(graph)),
      original_nodes_(graph_.nodes.size()),
      position_(graph_.nodes.size()),
      replacement_(graph_.values.size()),
      uses_(graph_.values.size()),
      unnamed_(graph_.values.size(), false),
      constant_names_(graph_, "const") {
  for (size_t n = 0; n < position_.size(); ++n) position_[n] = static_cast<int32_t>(n);
  for (size_t v = 0; v < replacement_.size(); ++v) replacement_[v] = ValueId::FromIndex(v);
  for (const Node& node : graph_.nodes) {
    for (ValueId operand : node.operands) ++uses_[Index(operand)];
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

bool Rewriter::Closed(std::vector<NodeId> interior, NodeId root) const {
  interior.push_back(root);
  std::sort(interior.begin(), interior.end());
  interior.erase(std::unique(interior.begin(), interior.end()), interior.end());
  auto uses_inside = [&](ValueId value) {
    int32_t uses = 0;
    for (NodeId id : interior) {
      for (ValueId operand : node(id).operands) uses += Resolve(operand) == value;
    }
    return uses;
  };
  for (NodeId id : interior) {
    if (id == root) continue;
    for (ValueId result : node(id).results) {
      if (uses_inside(result) != uses_[Index(result)]) return false;
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
  ValueId result = AddOp(graph_, op, std::move(attributes), std::move(operands), "").front();
  position_.push_back(position_[Index(at)]);
  uses_.resize(graph_.values.size());
  unnamed_.resize(graph_.values.size(), true);
  for (ValueId made : node(id).results) replacement_.push_back(made);
  for (ValueId operand : node(id).operands) ++uses_[Index(operand)];
  return result;
}

ValueId Rewriter::AddConstant(std::shared_ptr<const HostTensor> data) {
  TensorType type = data->type();
  ValueId id = graph_.AddValue(constant_names_.Next(), std::move(type), ValueKind::kConstant,
                               std::move(data));
  replacement_.push_back(id);
  uses_.push_back(0);
  unnamed_.push_back(false);
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
  if (unnamed_[Index(with)]) {
    std::swap(from.name, to.name);
    unnamed_.swap(unnamed_[Index(old)], unnamed_[Index(with)]);
  }
  replacement_[Index(old)] = with;
  uses_[Index(with)] += uses_[Index(old)];
  ++replaced_;
}

Graph Rewriter::Finish() {
  for (Node& node : graph_.nodes) {
    for (ValueId& operand : node.operands) operand = Resolve(operand);
  }
  for (ValueId& output : graph_.outputs) output = Resolve(output);
  return Renumber(Sort(Needed()));
}

std::vector<bool> Rewriter::Needed() const {
  std::vector<bool> needed(graph_.nodes.size(), false);
  std::vector<NodeId> stack;
  auto need = [&](ValueId value) {
    NodeId producer = graph_.value(value).producer;
    if (!producer.valid() || needed[Index(producer)]) return;
    needed[Index(producer)] = true;
    stack.push_back(producer);
  };
  for (ValueId output : graph_.outputs) need(output);
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    for (ValueId operand : node(id).operands) need(operand);
  }
  return needed;
}

std::vector<NodeId> Rewriter::Sort(const std::vector<bool>& needed) const {
  // Sorted by position: original nodes stay in order, and added nodes come after the original node at their position.
  std::vector<NodeId> order;
  for (size_t n = 0; n < needed.size(); ++n) order.push_back(NodeId::FromIndex(n));
  auto before = [&](NodeId a, NodeId b) { return position_[Index(a)] < position_[Index(b)]; };
  auto added = order.begin() + static_cast<std::ptrdiff_t>(original_nodes_);
  std::stable_sort(added, order.end(), before);
  std::inplace_merge(order.begin(), added, order.end(), before);

  // Puts each node after the producers of its operands.
  std::vector<NodeId> sorted, stack;
  std::vector<bool> done(needed.size(), false);
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
  return sorted;
}

Graph Rewriter::Renumber(const std::vector<NodeId>& sorted) {
  std::vector<bool> used(graph_.values.size(), false);
  for (NodeId id : sorted) {
    for (ValueId operand : node(id).operands) used[Index(operand)] = true;
  }
  for (ValueId output : graph_.outputs) used[Index(output)] = true;

  FreshNames fresh(graph_, "fused");
  Graph result;
  result.name = std::move(graph_.name);
  result.values.reserve(graph_.values.size());
  result.nodes.reserve(sorted.size());
  std::vector<ValueId> moved(graph_.values.size());
  auto move = [&](ValueId old) {
    moved[Index(old)] = ValueId::FromIndex(result.values.size());
    return &result.values.emplace_back(std::move(graph_.value(old)));
  };
  for (size_t v = 0; v < used.size(); ++v) {
    if (used[v] && !graph_.values[v].producer.valid()) move(ValueId::FromIndex(v));
  }
  for (NodeId id : sorted) {
    NodeId made = NodeId::FromIndex(result.nodes.size());
    Node& node = result.nodes.emplace_back(std::move(graph_.node(id)));
    for (ValueId old : node.results) {
      Value* value = move(old);
      value->producer = made;
      if (unnamed_[Index(old)]) value->name = fresh.Next();
    }
    for (ValueId& operand : node.operands) operand = moved[Index(operand)];
    for (ValueId& each : node.results) each = moved[Index(each)];
  }
  for (ValueId output : graph_.outputs) result.outputs.push_back(moved[Index(output)]);
  return result;
}

Graph DropDead(Graph graph) { return Rewriter(std::move(graph)).Finish(); }

}  // namespace heddle
