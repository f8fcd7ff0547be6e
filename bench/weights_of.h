// The weights of a plan's stages, and the share of FLOPs that uses weights.
#pragma once

#include <algorithm>
#include <set>

#include "ops/analysis.h"
#include "ops/traits.h"
#include "plan/plan.h"

namespace heddle {

struct StageWeights {
  double all = 0, kept = 0;
};

// The weights of the stage that has most, if every device has whole layers.
inline StageWeights MostOf(const Model& model, const Plan& plan) {
  StageWeights most;
  for (const Stage& stage : plan.stages) {
    StageWeights sum;
    std::set<ValueId> seen;
    for (NodeId node : NodesOf(model, stage)) {
      for (ValueId id : model.graph.node(node).operands) {
        const Value& value = model.graph.value(id);
        if (value.kind != ValueKind::kParameter || !seen.insert(id).second) continue;
        double elements = 1;
        for (int64_t size : value.type.shape) elements *= static_cast<double>(size);
        auto pruned = plan.pruning.kept.find(value.name);
        sum.all += elements;
        sum.kept +=
            pruned == plan.pruning.kept.end() ? elements : static_cast<double>(pruned->second);
      }
    }
    if (sum.all > most.all) most = sum;
  }
  return most;
}

// The fraction of matrix product FLOPs with a weight as operand, which sparse kernels can compute.
inline double ShareOfWeights(const Model& model) {
  double with = 0, all = 0;
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const Node& node = model.graph.nodes[n];
    if (TraitsOf(node.op).kind != OpKind::kMatrixProduct) continue;
    const Rule& rule = model.rules[n];
    Halves work = NodeWork(node, rule, model.flow, WholeBlocks(rule));
    double flops = work.forward.flops + work.backward.flops + work.weight.flops;
    bool weights = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
      return model.graph.value(id).kind == ValueKind::kParameter;
    });
    all += flops;
    if (weights) with += flops;
  }
  return all > 0 ? with / all : 1;
}

}  // namespace heddle
