#include <algorithm>

#include "program/stage_builder.h"

namespace heddle {
namespace {

void AddOnce(std::vector<int>& list, int item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

void FindReaders(LoweringContext& context) {
  const Model& model = context.expanded.model;
  context.reader_stages.resize(model.graph.values.size());
  context.gradient_stages.resize(model.graph.values.size());
  std::vector<int> stage_of(model.graph.nodes.size(), -1);
  const std::vector<Stage>& stages = context.expanded.stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (NodeId id : NodesOf(model, stages[s])) stage_of[id.index()] = static_cast<int>(s);
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    for (NodeId id : NodesAndSideNodesOf(model, stages[s])) {
      const Node& node = model.graph.node(id);
      for (size_t o = 0; o < node.operands.size(); ++o) {
        size_t v = node.operands[o].index();
        NodeId producer = model.graph.values[v].producer;
        bool parameter = model.graph.values[v].kind == ValueKind::kParameter;
        bool away = producer.valid() && stage_of[producer.index()] >= 0 &&
                    stage_of[producer.index()] != static_cast<int>(s);
        if (!parameter && !away) continue;
        AddOnce(context.reader_stages[v], static_cast<int>(s));
        if (WantsGradient(model, id, o)) AddOnce(context.gradient_stages[v], static_cast<int>(s));
      }
    }
  }
}

}  // namespace heddle
