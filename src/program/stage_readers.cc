#include <algorithm>

#include "program/stage_builder.h"

namespace heddle {
namespace {

void AddOnce(std::vector<StageId>& list, StageId item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

void FindReaders(LoweringContext& context) {
  const Model& model = context.expanded.model;
  context.reader_stages.resize(model.graph.values.size());
  context.gradient_stages.resize(model.graph.values.size());
  std::vector<StageId> stage_of(model.graph.nodes.size());
  const std::vector<Stage>& stages = context.expanded.stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (NodeId id : NodesOf(model, stages[s])) stage_of[id.index()] = StageId::FromIndex(s);
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    StageId stage = StageId::FromIndex(s);
    for (NodeId id : NodesAndSideNodesOf(model, stages[s])) {
      const Node& node = model.graph.node(id);
      for (size_t o = 0; o < node.operands.size(); ++o) {
        size_t v = node.operands[o].index();
        NodeId producer = model.graph.values[v].producer;
        bool parameter = model.graph.values[v].kind == ValueKind::kParameter;
        StageId maker = producer.valid() ? stage_of[producer.index()] : StageId{};
        bool away = maker.valid() && maker != stage;
        if (!parameter && !away) continue;
        AddOnce(context.reader_stages[v], stage);
        if (WantsGradient(model, id, o)) AddOnce(context.gradient_stages[v], stage);
      }
    }
  }
}

}  // namespace heddle
