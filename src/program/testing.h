// A small model and plans for it, for the tests of programs.
//
//   h0 = relu(x w0), h1 = relu(h0 w1), ... and a cross entropy over labels; the last weight may be the first again
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/op.h"
#include "plan/gradient_sync.h"
#include "plan/plan.h"
#include "program/lower.h"

namespace heddle {

inline Model SmallModel(int layers = 4, bool tied = false, int64_t width = 16) {
  Graph graph;
  graph.name = "small";
  ValueId x = graph.AddValue("x", {DType::kF32, {8, width}}, ValueKind::kInput);
  ValueId labels = graph.AddValue("labels", {DType::kI64, {8}}, ValueKind::kInput);
  ValueId first;
  for (int l = 0; l < layers; ++l) {
    bool again = tied && l == layers - 1;
    std::string name = fmt::format("w{}", l);
    ValueId w =
        again ? first : graph.AddValue(name, {DType::kF32, {width, width}}, ValueKind::kParameter);
    if (l == 0) first = w;
    x = AddOp(graph, "MatMul", {}, {x, w}, fmt::format("m{}", l))[0];
    x = AddOp(graph, "Relu", {}, {x}, fmt::format("h{}", l))[0];
  }
  ValueId count = AddOp(graph, "LabelCount", {}, {labels}, "count")[0];
  graph.outputs = AddOp(graph, "CrossEntropy", {}, {x, labels, count}, "loss");
  return Analyse(std::move(graph));
}

struct SmallPlanOptions {
  int64_t dp = 2, tp = 2;
  size_t stages = 1;
  int64_t microbatches = 1;
  std::string schedule = "1f1b";
  int zero = 0;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  Offload offload = Offload::kNone;
  GradientSync sync = GradientSync::kReduce;
};

inline AxisChoice SplitOf(const Rule& rule, std::string_view name) {
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].name == name) return Split(static_cast<int>(f));
  }
  return kReplicate;
}

// dp splits the batch; tp the weights, by columns and by rows in turn.
inline Strategy SmallStrategy(const Model& model, NodeId id) {
  const Rule& rule = model.rules[id.index()];
  Strategy strategy = {kReplicate, kReplicate};
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (model.batch->factors[id.index()][f].has_value()) strategy[0] = Split(static_cast<int>(f));
  }
  const std::string& name = model.graph.value(model.graph.node(id).results[0]).name;
  bool columns = (name[1] - '0') % 2 == 0;
  if (name[0] == 'm') strategy[1] = SplitOf(rule, columns ? "j" : "k");
  if (name[0] == 'h' && columns) strategy[1] = SplitOf(rule, "x1");
  return strategy;
}

inline Plan SmallPlan(const Model& model, const SmallPlanOptions& options = {}) {
  Plan plan;
  plan.batch = BatchSize(model);
  plan.microbatches = options.microbatches;
  plan.schedule = options.schedule;
  plan.zero = {options.zero, {"dp"}};
  plan.offload = options.offload;
  int blocks = static_cast<int>(model.blocks.size());
  for (size_t s = 0; s < options.stages; ++s) {
    Stage stage;
    stage.first_block = blocks * static_cast<int>(s) / static_cast<int>(options.stages);
    stage.last_block = blocks * static_cast<int>(s + 1) / static_cast<int>(options.stages);
    stage.mesh = {static_cast<int64_t>(s) * options.dp * options.tp,
                  {{"dp", options.dp}, {"tp", options.tp}}};
    stage.recompute.assign(static_cast<size_t>(stage.last_block - stage.first_block),
                           options.recompute);
    stage.strategies.resize(model.graph.nodes.size());
    std::vector<NodeId> nodes = NodesOf(model, stage), side = SideNodesOf(model, nodes);
    nodes.insert(nodes.end(), side.begin(), side.end());
    for (NodeId id : nodes) stage.strategies[id.index()] = SmallStrategy(model, id);
    plan.stages.push_back(std::move(stage));
  }
  SetSync(model, options.sync, plan.stages);
  return plan;
}

inline Program SmallProgram(const SmallPlanOptions& options = {}, int layers = 4,
                            bool tied = false) {
  Model model = SmallModel(layers, tied);
  return Lower(model, SmallPlan(model, options));
}

}  // namespace heddle
