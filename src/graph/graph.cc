#include "graph/graph.h"

#include <utility>

#include "base/error.h"

namespace heddle {
namespace {

constexpr std::string_view kKindNames[] = {"an integer", "a float", "a string",
                                           "a list of integers", "a list of floats"};

// The attribute; null where it is missing and the caller has a fallback.
const Attribute* Find(const Attributes& attributes, std::string_view name, bool has_fallback) {
  auto it = attributes.find(name);
  if (it != attributes.end()) return &it->second;
  if (!has_fallback) ThrowInput("attribute '{}' is missing", name);
  return nullptr;
}

template <class T>
const T& Expect(const Attribute& attribute, std::string_view name) {
  if (const T* value = std::get_if<T>(&attribute)) return *value;
  ThrowInput("attribute '{}' is {}, expected {}", name, kKindNames[attribute.index()],
             kKindNames[Attribute(T{}).index()]);
}

template <class T>
T Get(const Attributes& attributes, std::string_view name, std::optional<T> fallback) {
  const Attribute* found = Find(attributes, name, fallback.has_value());
  return found ? Expect<T>(*found, name) : *std::move(fallback);
}

}  // namespace

ValueId Graph::AddValue(std::string value_name, TensorType type, ValueKind kind,
                        std::shared_ptr<const HostTensor> data) {
  ValueId id = ValueId::FromIndex(values.size());
  values.push_back({.name = std::move(value_name),
                    .type = std::move(type),
                    .kind = kind,
                    .producer = {},
                    .data = std::move(data)});
  return id;
}

NodeId Graph::AddNode(std::string op, Attributes attributes, std::vector<ValueId> operands) {
  NodeId id = NodeId::FromIndex(nodes.size());
  nodes.push_back({std::move(op), std::move(attributes), std::move(operands), {}});
  return id;
}

ValueId Graph::AddResult(NodeId node_id, std::string value_name, TensorType type) {
  ValueId id = AddValue(std::move(value_name), std::move(type), ValueKind::kActivation);
  value(id).producer = node_id;
  node(node_id).results.push_back(id);
  return id;
}

std::vector<ValueId> Graph::ValuesOf(ValueKind kind) const {
  std::vector<ValueId> ids;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].kind == kind) ids.push_back(ValueId::FromIndex(i));
  }
  return ids;
}

std::vector<std::vector<NodeId>> Readers(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    NodeId id = NodeId::FromIndex(i);
    for (ValueId operand : graph.nodes[i].operands) {
      std::vector<NodeId>& list = readers[operand.index()];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  return readers;
}

int64_t IntAttr(const Attributes& attributes, std::string_view name,
                std::optional<int64_t> fallback) {
  return Get(attributes, name, fallback);
}

double FloatAttr(const Attributes& attributes, std::string_view name,
                 std::optional<double> fallback) {
  const Attribute* found = Find(attributes, name, fallback.has_value());
  if (!found) return *fallback;
  if (const int64_t* integer = std::get_if<int64_t>(found)) return static_cast<double>(*integer);
  return Expect<double>(*found, name);
}

std::string StringAttr(const Attributes& attributes, std::string_view name,
                       std::optional<std::string> fallback) {
  return Get(attributes, name, std::move(fallback));
}

std::vector<int64_t> IntsAttr(const Attributes& attributes, std::string_view name,
                              std::optional<std::vector<int64_t>> fallback) {
  return Get(attributes, name, std::move(fallback));
}

}  // namespace heddle
