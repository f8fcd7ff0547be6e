// What a whole model amounts to: the work of its three halves and what is kept for backward.
//
// Every node has three halves: F (forward), B (gradients of its activations) and W (gradients of its
// parameters). Their work follows from the rule and from which operands need a gradient at all.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "ops/rule.h"

namespace heddle {

struct Halves {
  Work forward;   // F
  Work backward;  // B
  Work weight;    // W
};

// Does the loss's gradient have to reach this value: is it a parameter, or made from one by ops with
// gradients?
std::vector<bool> NeedsGradient(const Graph& graph, const std::vector<Rule>& rules);

// The rules of all nodes, in their order. Throws InputError naming the node whose rule fails.
std::vector<Rule> MakeRules(const Graph& graph);

// The three halves of one node for the part given by `blocks`.
Halves NodeWork(const Graph& graph, const Node& node, const Rule& rule,
                const std::vector<bool>& needs_gradient, std::span<const Block> blocks);

struct ModelSize {
  int64_t nodes = 0;
  int64_t parameters = 0;
  int64_t parameter_tensors = 0;
  Halves work;
  // Activations kept from forward for backward, each storage once: views share what they look at.
  double activation_bytes = 0;
};

ModelSize Measure(const Graph& graph);

}  // namespace heddle
