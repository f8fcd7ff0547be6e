// The forward pass of a model as a directed acyclic graph, as one device computes it.
//
// A Graph is a plain value: values (tensors with a name, a type and a kind) and nodes (an op applied to operand values,
// which gives result values) in topological order. This module does not know what an op computes: its rule is in
// `ops/`. The graph does not contain the backward pass, which follows from the rules.
//
//   Graph g;
//   ValueId x = g.AddValue("x", {DType::kF32, {8, 192}}, ValueKind::kInput);
//   ValueId w = g.AddValue("w", {DType::kF32, {192, 10}}, ValueKind::kParameter);
//   NodeId n = g.AddNode("MatMul", {}, {x, w});
//   ValueId y = g.AddResult(n, "y", {DType::kF32, {8, 10}});
//   g.outputs = {y};
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/strong_id.h"
#include "graph/tensor.h"

namespace heddle {

using NodeId = StrongId<struct NodeTag>;
using ValueId = StrongId<struct ValueTag>;

enum class ValueKind : uint8_t { kInput, kParameter, kConstant, kActivation };

using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

// Attributes by name, in the order of their names.
using Attributes = std::map<std::string, Attribute, std::less<>>;

struct Value {
  std::string name;  // unique in the graph
  TensorType type;
  ValueKind kind = ValueKind::kActivation;
  NodeId producer;  // valid for activations only
  // The contents of a constant, or the initial weights of a parameter; null where the file has none.
  std::shared_ptr<const HostTensor> data;
  // For a constant from a text file without its data (graph/text.h): the hash of the data, which is printed, and
  // checked when AttachData adds the data. Unused where `data` is set.
  std::optional<uint64_t> data_hash = std::nullopt;
};

struct Node {
  std::string op;
  Attributes attributes;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  // A model has one output, its scalar loss. The expansion of an op has one output per result of the op.
  std::vector<ValueId> outputs;

  const Value& value(ValueId id) const { return values[id.index()]; }
  Value& value(ValueId id) { return values[id.index()]; }
  const Node& node(NodeId id) const { return nodes[id.index()]; }
  Node& node(NodeId id) { return nodes[id.index()]; }

  ValueId AddValue(std::string name, TensorType type, ValueKind kind,
                   std::shared_ptr<const HostTensor> data = nullptr);
  NodeId AddNode(std::string op, Attributes attributes, std::vector<ValueId> operands);
  ValueId AddResult(NodeId node, std::string name, TensorType type);

  // The values of one kind, in the order of their ids.
  std::vector<ValueId> ValuesOf(ValueKind kind) const;
};

// For every value, the nodes that read it, each once, in ascending order.
std::vector<std::vector<NodeId>> Readers(const Graph& graph);

// Everything that is structurally wrong with a graph, one line each; empty when the graph is sound. The checks are:
// - ids are in range; operands are produced by earlier nodes; every result has exactly one producer
// - names are unique and not empty; every node has an op; no shape is negative, too large, or of a rank above kMaxRank
// - inputs, parameters and constants have no producer, activations have one; every node has a result
// - data has the type of its value, and only constants and parameters have data
// - there is at least one output, and every output exists
std::vector<std::string> Verify(const Graph& graph);

// The checks of Verify, and that the graph is a model: its one output is a scalar of a float type.
std::vector<std::string> VerifyModel(const Graph& graph);

// A hash of everything but the data of parameters. It is the same in every process and on every machine. It is the hash
// of the text form (graph/text.h), so it reads all constants once. Ids matter only through their order. The graph must
// be sound (Verify).
uint64_t StableHash(const Graph& graph);

// The value of an attribute, or the fallback. Without a fallback a missing attribute is an InputError that names it;
// callers add the op. An attribute of another type is an InputError, too; FloatAttr also accepts integers.
int64_t IntAttr(const Attributes& attributes, std::string_view name,
                std::optional<int64_t> fallback = {});
double FloatAttr(const Attributes& attributes, std::string_view name,
                 std::optional<double> fallback = {});
std::string StringAttr(const Attributes& attributes, std::string_view name,
                       std::optional<std::string> fallback = {});
std::vector<int64_t> IntsAttr(const Attributes& attributes, std::string_view name,
                              std::optional<std::vector<int64_t>> fallback = {});

}  // namespace heddle
