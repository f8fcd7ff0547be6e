// Rewrites a graph: match, add, replace, finish.
//
//   Rewriter rw(std::move(graph));
//   for (NodeId id : rw.Nodes()) {
//     const Node& root = rw.node(id);
//     if (...) rw.Replace(root.results[0], rw.Add(id, "Silu", {}, {x}));
//   }
//   return rw.Finish();
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace heddle {

// Names that no value of a graph has: prefix.0, prefix.1, ...
class FreshNames {
 public:
  FreshNames(const Graph& graph, std::string_view prefix);
  std::string Next();

 private:
  std::string_view prefix_;
  std::unordered_set<std::string> taken_;  // names that begin with the prefix
  int count_ = 0;
};

class Rewriter {
 public:
  explicit Rewriter(Graph graph);

  const Graph& graph() const { return graph_; }
  const Node& node(NodeId id) const { return graph_.node(id); }
  const Value& value(ValueId id) const { return graph_.value(Resolve(id)); }

  // The nodes that the graph had at the start, in order.
  std::vector<NodeId> Nodes() const;

  // The value that stands for `id` after the replacements so far.
  ValueId Resolve(ValueId id) const;
  // An operand of a node, after replacements.
  ValueId Operand(NodeId id, size_t index) const { return Resolve(node(id).operands[index]); }

  // The node that produces a value, if it is a node of this op.
  std::optional<NodeId> Producer(ValueId id, std::string_view op) const;

  // Whether every result of these nodes, except those of `root`, is read only by these nodes. Then replacing the root's
  // result makes all of them unused.
  bool Closed(std::vector<NodeId> interior, NodeId root) const;

  // The number that all elements of a constant are equal to.
  std::optional<double> Splat(ValueId id) const;

  // Adds an op at the place of node `at` and returns its first result.
  ValueId Add(NodeId at, std::string_view op, Attributes attributes, std::vector<ValueId> operands);
  // Adds a constant.
  ValueId AddConstant(std::shared_ptr<const HostTensor> data);

  // All readers of `old` read `with` instead, which takes its name. The types must be equal.
  void Replace(ValueId old, ValueId with);

  // The number of replacements.
  int replaced() const { return replaced_; }

  // The graph without nodes, inputs and parameters that its outputs do not need, in stable topological order.
  Graph Finish();

 private:
  // Which nodes the outputs need.
  std::vector<bool> Needed() const;
  // Those nodes in stable topological order.
  std::vector<NodeId> Sort(const std::vector<bool>& needed) const;
  // The graph with these nodes and the values that they read; takes graph_ apart.
  Graph Renumber(const std::vector<NodeId>& sorted);

  Graph graph_;
  size_t original_nodes_;
  std::vector<int32_t> position_;     // for every node, for a stable order
  std::vector<ValueId> replacement_;  // for every value; itself where it is not replaced
  std::vector<int32_t> uses_;         // for every value, the number of its uses as an operand
  std::vector<bool> unnamed_;         // for every value: a result of Add that has no final name yet
  FreshNames constant_names_;
  int replaced_ = 0;
};

// The graph without nodes that its outputs do not need.
Graph DropDead(Graph graph);

}  // namespace heddle
