// Rewriting a graph: match, add, replace, finish.
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
  std::unordered_set<std::string> taken_;  // those that begin so
  int count_ = 0;
};

class Rewriter {
 public:
  explicit Rewriter(Graph graph);

  const Graph& graph() const { return graph_; }
  const Node& node(NodeId id) const { return graph_.node(id); }
  const Value& value(ValueId id) const { return graph_.value(Resolve(id)); }

  // The nodes the graph had at the start, in order.
  std::vector<NodeId> Nodes() const;

  // A value as replacements made so far leave it.
  ValueId Resolve(ValueId id) const;
  // An operand of a node, resolved.
  ValueId Operand(NodeId id, size_t index) const { return Resolve(node(id).operands[index]); }

  // The node that makes a value, if it is one of this op.
  std::optional<NodeId> Producer(ValueId id, std::string_view op) const;

  // Is every result of these nodes, except those of `root`, read by these nodes only? Then replacing the
  // root's result leaves none of them needed.
  bool Closed(std::vector<NodeId> interior, NodeId root) const;

  // The number all elements of a constant share, if they do.
  std::optional<double> Splat(ValueId id) const;

  // Adds an op where node `at` stands and returns its first result.
  ValueId Add(NodeId at, std::string_view op, Attributes attributes, std::vector<ValueId> operands);
  // Adds a constant.
  ValueId AddConstant(std::shared_ptr<const HostTensor> data);

  // Everything that read `old` now reads `with`, which takes its name. Types must be equal.
  void Replace(ValueId old, ValueId with);

  // How many replacements were made.
  int replaced() const { return replaced_; }

  // The graph without what its outputs do not need (inputs and parameters included), in stable
  // topological order.
  Graph Finish();

 private:
  // Which nodes the outputs need.
  std::vector<bool> Needed() const;
  // Those nodes in stable topological order.
  std::vector<NodeId> Sort(const std::vector<bool>& needed) const;
  // The graph of these nodes and what they read; takes graph_ apart.
  Graph Renumber(const std::vector<NodeId>& sorted);

  Graph graph_;
  size_t original_nodes_;
  std::vector<int32_t> position_;     // of every node, for a stable order
  std::vector<ValueId> replacement_;  // of every value; itself where not replaced
  std::vector<int32_t> uses_;         // of every value, as an operand
  std::vector<bool> unnamed_;         // of every value: a result of Add that has taken no name yet
  FreshNames constant_names_;
  int replaced_ = 0;
};

// The graph without what its outputs do not need.
Graph DropDead(Graph graph);

}  // namespace heddle
