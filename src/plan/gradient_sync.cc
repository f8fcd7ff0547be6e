#include "plan/gradient_sync.h"

#include <fmt/format.h>

#include <set>

#include "ops/gradient_factors.h"

namespace heddle {

SyncRules::SyncRules(const Model& model, const std::vector<Stage>& stages)
    : model_(model), stages_(stages), readings_(stages.size()) {
  for (size_t s = 0; s < stages.size(); ++s) {
    for (NodeId id : NodesAndSideNodesOf(model, stages[s])) {
      const Node& node = model.graph.node(id);
      for (size_t o = 0; o < node.operands.size(); ++o) {
        bool parameter = model.graph.value(node.operands[o]).kind == ValueKind::kParameter;
        if (parameter) readings_[s][node.operands[o]].push_back({id, o});
      }
    }
  }
}

std::vector<ValueId> SyncRules::ParametersOf(size_t stage) const {
  std::vector<ValueId> parameters;
  for (const auto& [id, readings] : readings_[stage]) parameters.push_back(id);
  return parameters;
}

std::string SyncRules::WhyNot(size_t stage, ValueId parameter, GradientSync sync) const {
  if (sync == GradientSync::kReduce) return "";
  auto found = readings_[stage].find(parameter);
  if (found == readings_[stage].end()) return "the stage reads no such parameter";
  if (!model_.flow.needed[parameter.index()]) return "it is not trained";
  for (size_t s = 0; s < stages_.size(); ++s) {
    auto here = readings_[s].find(parameter);
    if (here == readings_[s].end()) continue;
    if (sync == GradientSync::kServer && s != stage)
      return fmt::format("stage {} reads it, too", s);
    std::string why = sync == GradientSync::kFactors ? WhyNoFactors(s, here->second) : "";
    if (!why.empty()) return s == stage ? why : fmt::format("on stage {} {}", s, why);
  }
  return "";
}

bool SyncRules::Agree(ValueId parameter) const {
  std::set<GradientSync> all;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (readings_[s].count(parameter) == 0) continue;
    auto found = stages_[s].sync.find(parameter);
    all.insert(found == stages_[s].sync.end() ? GradientSync::kReduce : found->second);
  }
  return all.size() <= 1;
}

std::string SyncRules::WhyNoFactors(size_t stage, const std::vector<Reading>& readings) const {
  if (readings.size() > 1) return fmt::format("{} nodes read it, must be 1", readings.size());
  auto [id, operand] = readings[0];
  const Node& node = model_.graph.node(id);
  if (model_.block_of[id.index()] < 0)
    return fmt::format("{} reads it once per step, whatever the samples", node.op);
  if (FindGradientFactors(node, operand) == nullptr)
    return fmt::format("{} has no factors of the gradient of its operand {}", node.op, operand);
  if (node.results[0] == model_.graph.outputs.front()) return "its reader gives the loss";
  const Stage& on = stages_[stage];
  Sharding read =
      OperandSharding(on.mesh, model_.rules[id.index()], on.strategies[id.index()], operand);
  if (read.partial_axes() != 0) return fmt::format("{} reads it as a partial sum", node.op);
  return "";
}

void SetSync(const Model& model, GradientSync sync, std::vector<Stage>& stages) {
  if (sync == GradientSync::kReduce) return;
  SyncRules rules(model, stages);
  for (size_t s = 0; s < stages.size(); ++s) {
    for (ValueId id : rules.ParametersOf(s)) {
      if (rules.WhyNot(s, id, sync).empty()) stages[s].sync[id] = sync;
    }
  }
}

}  // namespace heddle
