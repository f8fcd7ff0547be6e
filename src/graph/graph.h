// The forward pass of a model as a DAG in single-device meaning.
//
// A Graph is a plain value: values (tensors with a name, a type and a kind) and nodes (an op
// applied to operand values, giving result values), nodes in topological order. What an op means is
// not known here: `ops/` has its rule. The backward pass is not spelled out; it follows from the
// rules.
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
  NodeId producer;  // invalid unless an activation
  // What a constant holds, or the weights a parameter starts from; null where the file has none.
  std::shared_ptr<const HostTensor> data;
  // Of a constant read from a text file that leaves its data out (graph/text.h): the hash of that
  // data, by which it is printed and checked until AttachData brings it. Unused where `data` is
  // set.
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
  // A model has one output, its scalar loss; an op's expansion has one per result of the op.
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

// For every value, the nodes that read it (each once, ascending).
std::vector<std::vector<NodeId>> Readers(const Graph& graph);

// Everything structurally wrong with a graph, one line each; empty when it is sound. It checks that
//  - ids are in range; operands are produced by earlier nodes; a result is made by one node only
//  - names are not empty and unique; ops are named; no shape is negative, above kMaxRank or too
//  large
//  - inputs, parameters and constants have no producer, activations have one; every node has a
//  result
//  - data has the type of its value, and only constants and parameters have any
//  - every output exists and there is at least one
std::vector<std::string> Verify(const Graph& graph);

// As Verify, and that the graph is a model: one output, a scalar of a float type.
std::vector<std::string> VerifyModel(const Graph& graph);

// A hash of everything but the data of parameters: the same in every process and on every machine.
// It is the hash of the text form (graph/text.h), so it costs one reading of all constants; ids do
// not count beyond the order they give. The graph must be sound (Verify).
uint64_t StableHash(const Graph& graph);

// Attributes with a default or, where none is given, an InputError naming the attribute (what calls
// them adds the op). An attribute of another type is an InputError too; FloatAttr takes an integer.
int64_t IntAttr(const Attributes& attributes, std::string_view name,
                std::optional<int64_t> fallback = {});
double FloatAttr(const Attributes& attributes, std::string_view name,
                 std::optional<double> fallback = {});
std::string StringAttr(const Attributes& attributes, std::string_view name,
                       std::optional<std::string> fallback = {});
std::vector<int64_t> IntsAttr(const Attributes& attributes, std::string_view name,
                              std::optional<std::vector<int64_t>> fallback = {});

}  // namespace heddle
