// The list of ops. Adding one: an OpDef with its traits in its family's file (contraction.cc, elementwise.cc, ...), a
// kernel of the same name under runtime/kernels/, a sample in runtime/kernels/op_samples.cc. Shape
// inference, shardings, costs and the proof tests follow from these.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/rule.h"
#include "ops/traits.h"

namespace heddle {

// What a rule is made from: a node's attributes and the types of its operands.
struct OpContext {
  const Attributes& attributes;
  std::span<const TensorType> operands;

  int64_t rank(size_t operand = 0) const {
    return static_cast<int64_t>(operands[operand].shape.size());
  }
  const Shape& shape(size_t operand = 0) const { return operands[operand].shape; }
  int64_t dim(size_t operand, int64_t axis) const {
    return operands[operand].shape[static_cast<size_t>(axis)];
  }
};

struct OpDef {
  std::string_view name;
  int min_operands;
  int max_operands;                          // -1: any number
  std::vector<std::string_view> attributes;  // those it knows; others are refused
  std::function<Rule(const OpContext&)> rule;
  OpTraits traits = {};
  // For ops with an expanded factor: the same computation as a graph of primitives whose inputs are the
  // operands in order and whose outputs are the results.
  std::function<Graph(const OpContext&)> expansion = nullptr;
};

// All ops in a fixed order (by family), and one by name (null when there is none).
std::span<const OpDef> AllOps();
const OpDef* FindOp(std::string_view name);

// The rule of an op applied to operands of the given types. Throws InputError, whose text names the op
// and what is wrong, when the attributes or types do not fit; sizes are checked for overflow.
Rule MakeRule(std::string_view op, const Attributes& attributes,
              std::span<const TensorType> operands);
Rule MakeRule(const Graph& graph, const Node& node);

// Appends a node whose results have the types its rule gives, and returns them. Result names are
// `name`, or `name.0`, `name.1`... where there are several.
std::vector<ValueId> AddOp(Graph& graph, std::string_view op, Attributes attributes,
                           std::vector<ValueId> operands, std::string_view name);

// Throws InputError at the first node whose rule fails or whose results differ from the stated types,
// naming both types.
void CheckTypes(const Graph& graph);

}  // namespace heddle
