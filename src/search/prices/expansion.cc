#include "search/prices/expansion.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/expand.h"
#include "plan/plan.h"

namespace heddle {
namespace {

// A model of this node alone, with its operands as inputs.
Model Alone(const Model& model, const Rule& rule, NodeId id) {
  const Node& node = model.graph.node(id);
  Model alone;
  std::vector<ValueId> operands;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    TensorType type{model.graph.value(node.operands[o]).type.dtype,
                    GlobalShape(rule, rule.operands[o])};
    operands.push_back(alone.graph.AddValue(fmt::format("operand{}", o), type, ValueKind::kInput));
  }
  NodeId made = alone.graph.AddNode(node.op, node.attributes, operands);
  for (size_t r = 0; r < node.results.size(); ++r) {
    TensorType type{model.graph.value(node.results[r]).type.dtype,
                    GlobalShape(rule, rule.results[r])};
    alone.graph.outputs.push_back(alone.graph.AddResult(made, fmt::format("result{}", r), type));
  }
  alone.rules.push_back(rule);
  alone.blocks = {{{made}, -1, -1}};
  alone.block_of = {0};
  alone.once = {false};
  return alone;
}

// Gradients flow as they do around the node.
GradientFlow FlowInside(const Model& model, const Node& node, const Graph& graph,
                        const Rules& rules) {
  GradientFlow flow;
  flow.needed.assign(graph.values.size(), false);
  flow.weight.assign(graph.values.size(), false);
  std::vector<ValueId> inputs = graph.ValuesOf(ValueKind::kInput);
  bool wanted = std::any_of(node.results.begin(), node.results.end(),
                            [&](ValueId id) { return model.flow.needed[id.index()]; });
  for (size_t o = 0; o < inputs.size() && wanted; ++o) {
    flow.needed[inputs[o].index()] = model.flow.needed[node.operands[o].index()];
    flow.weight[inputs[o].index()] = model.flow.weight[node.operands[o].index()];
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    bool reached =
        std::any_of(rules[n].differentiable.begin(), rules[n].differentiable.end(), [&](int o) {
          return flow.needed[graph.nodes[n].operands[static_cast<size_t>(o)].index()];
        });
    for (ValueId id : graph.nodes[n].results) flow.needed[id.index()] = reached;
  }
  return flow;
}

}  // namespace

ExpandedNode ExpandNode(const Model& model, const Rule& rule, NodeId id, const Mesh& mesh,
                        const Strategy& strategy) {
  Plan plan;
  plan.stages.resize(1);
  plan.stages[0].last_block = 1;
  plan.stages[0].mesh = mesh;
  plan.stages[0].strategies = {strategy};
  ExpandedPlan expanded = Expand(Alone(model, rule, id), plan);
  const Node& node = model.graph.node(id);
  ExpandedNode out;
  out.graph = std::move(expanded.model.graph);
  out.rules = std::move(expanded.model.rules);
  out.strategies = std::move(expanded.stages[0].strategies);
  out.flow = FlowInside(model, node, out.graph, out.rules);

  std::vector<ExpandedValue> values(out.graph.values.size());
  std::vector<bool> given(values.size(), false);
  auto give = [&](ValueId value, Sharding sharding) {
    values[value.index()].given = std::move(sharding);
    values[value.index()].element_bytes = SizeOf(out.graph.value(value).type.dtype);
    given[value.index()] = true;
  };
  std::vector<ValueId> inputs = out.graph.ValuesOf(ValueKind::kInput);
  for (size_t o = 0; o < inputs.size(); ++o) {
    give(inputs[o], OperandSharding(mesh, rule, strategy, o));
  }
  for (size_t n = 0; n < out.graph.nodes.size(); ++n) {
    const Node& at = out.graph.nodes[n];
    const std::vector<int>& differentiable = out.rules[n].differentiable;
    for (size_t o = 0; o < at.operands.size(); ++o) {
      bool reached = out.flow.needed[at.operands[o].index()] &&
                     std::find(differentiable.begin(), differentiable.end(), static_cast<int>(o)) !=
                         differentiable.end();
      std::optional<Sharding> gradient;
      if (reached) gradient = OperandGradient(mesh, out.rules[n], out.strategies[n], o);
      values[at.operands[o].index()].uses.push_back(
          {OperandSharding(mesh, out.rules[n], out.strategies[n], o), gradient});
    }
    for (size_t r = 0; r < at.results.size(); ++r) {
      give(at.results[r], ResultSharding(mesh, out.rules[n], out.strategies[n], r));
    }
  }
  for (size_t r = 0; r < node.results.size(); ++r) {
    values[out.graph.outputs[r].index()].uses.push_back(
        {ResultSharding(mesh, rule, strategy, r), std::nullopt});
  }
  for (size_t v = 0; v < values.size(); ++v) {
    if (given[v] && !values[v].uses.empty()) out.values.push_back(std::move(values[v]));
  }
  return out;
}

}  // namespace heddle
