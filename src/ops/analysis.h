// What a whole model amounts to: the work of its three halves and what is kept for backward.
//
// Every node has three halves: F (forward), B (gradients of its activations) and W (gradients of its
// parameters). Their work follows from the rule and from which operands need a gradient at all.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "ops/rules.h"

namespace heddle {

struct Halves {
  Work forward;   // F
  Work backward;  // B
  Work weight;    // W
};

// Where gradients go, per value.
struct GradientFlow {
  std::vector<bool>
      needed;  // a parameter, or made from one by ops with gradients; and the loss depends on it
  std::vector<bool>
      weight;  // a parameter, or made from parameters and constants alone: its gradient is W's
};
GradientFlow FindGradients(const Graph& graph, const Rules& rules);

// The rules of all nodes, in their order. Throws InputError naming the node whose rule fails.
Rules MakeRules(const Graph& graph);

// The three halves of one node for the part given by `blocks`.
Halves NodeWork(const Node& node, const Rule& rule, const GradientFlow& flow,
                std::span<const Block> blocks);

// The value whose memory each value looks at: views share it.
std::vector<ValueId> Storages(const Graph& graph, const Rules& rules);

// The values, as it sees them, that a node keeps from forward for backward. Nothing where no gradient passes through
// it; then it keeps nothing beside them either (Rule::keep.extra).
struct NodeKept {
  bool any = false;  // a gradient passes through it
  std::vector<ValueId> values;
};
NodeKept KeptBy(const Node& node, const Rule& rule, const GradientFlow& flow);

// What some nodes keep from forward for backward: storages, and bytes that are in no value.
struct KeptSet {
  std::vector<bool> values;
  double extra_bytes = 0;
};
KeptSet FindKept(const Graph& graph, const Rules& rules, const GradientFlow& flow,
                 const std::vector<ValueId>& storages, std::span<const NodeId> nodes);

// The activations among them, in bytes. Floats count with `float_bytes` each, or their own size where that is 0.
double KeptBytes(const Graph& graph, const KeptSet& kept, int64_t float_bytes = 0);

// All nodes, in order.
std::vector<NodeId> AllNodes(const Graph& graph);

struct ModelSize {
  int64_t nodes = 0;
  int64_t parameters = 0;
  int64_t parameter_tensors = 0;
  Halves work;
  double activation_bytes = 0;  // kept from forward for backward
};

ModelSize Measure(const Graph& graph);
ModelSize Measure(const Graph& graph, const Rules& rules);

}  // namespace heddle
