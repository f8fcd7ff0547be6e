#include "program/factor_gradients.h"

#include <algorithm>

#include "base/check.h"
#include "ops/gradient_factors.h"

namespace heddle {
namespace {

class Connector {
 public:
  Connector(const LoweringContext& context, StageProgram& stage)
      : graph_(context.expanded.model.graph), rules_(context.rules), stage_(stage) {}

  void Connect(FactorGradient& gradient) {
    const Node& node = graph_.node(gradient.node);
    const Rule& rule = rules_[gradient.node.index()];
    Strategy strategy = FactorStrategy(stage_, gradient);
    gradient.parameter = StoredAs(node.operands[gradient.operand]);
    for (SegmentId id : stage_.segments.ids()) {
      const std::vector<NodeId>& nodes = stage_.segments[id].nodes;
      bool runs = std::find(nodes.begin(), nodes.end(), gradient.node) != nodes.end();
      if (runs && stage_.segments[id].phase == Phase::kMain) gradient.segment = id;
    }
    const Segment& segment = stage_.segments[gradient.segment];
    const std::vector<OperandRef>& operands = OperandsOf(segment, gradient.node);
    for (size_t o : FindGradientFactors(node, gradient.operand)->operands) {
      SegmentInputId input = operands[o].input;
      LocalId from =
          input.valid() ? segment.inputs[input].local : OutputOf(segment, node.operands[o]).local;
      gradient.factors.push_back(Gathered(from, OperandSharding(stage_.mesh, rule, strategy, o)));
    }
    gradient.factors.push_back(Gathered(OutputOf(segment, node.results[0]).gradient,
                                        ResultGradient(stage_.mesh, rule, strategy, 0)));
  }

 private:
  const Local& local(LocalId id) const { return stage_.locals[id]; }

  static const std::vector<OperandRef>& OperandsOf(const Segment& segment, NodeId id) {
    auto node = std::find(segment.nodes.begin(), segment.nodes.end(), id);
    return *(segment.operands.begin() + (node - segment.nodes.begin()));
  }

  LocalId StoredAs(ValueId parameter) const {
    for (LocalId id : stage_.locals.ids()) {
      if (local(id).Is<FromParameter>() && local(id).value == parameter) return id;
    }
    HEDDLE_CHECK(false, "parameter {} is not stored", parameter.value);
    return {};
  }

  const SegmentOutput& OutputOf(const Segment& segment, ValueId id) const {
    auto found = std::find_if(segment.outputs.begin(), segment.outputs.end(),
                              [&](const SegmentOutput& at) { return local(at.local).value == id; });
    HEDDLE_CHECK(found != segment.outputs.end(), "value {} does not leave its segment", id.value);
    return *found;
  }

  // Inputs and constants are there whole.
  LocalId Gathered(LocalId from, const Sharding& whole) {
    if (local(from).sharding == whole) return from;
    for (const auto& [source, made] : gathered_) {
      if (source == from && local(made).sharding == whole) return made;
    }
    if (local(from).Is<FromLoad>() || local(from).Is<FromConstant>()) {
      Local there = local(from);
      there.sharding = whole;
      gathered_.push_back({from, stage_.locals.Add(std::move(there))});
    } else {
      gathered_.push_back({from, AddChain(stage_, from, whole)});
    }
    return gathered_.back().second;
  }

  const Graph& graph_;
  const Rules& rules_;
  StageProgram& stage_;
  std::vector<std::pair<LocalId, LocalId>> gathered_;  // before and after
};

}  // namespace

FactorGradients FindFactorGradients(const LoweringContext& context, StageId id) {
  const Model& model = context.expanded.model;
  const Stage& stage = context.expanded.stages[id.index()];
  FactorGradients found;
  if (stage.sync.empty()) return found;
  for (NodeId at : NodesOf(model, stage)) {
    const Node& node = model.graph.node(at);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      auto sync = stage.sync.find(node.operands[o]);
      if (sync == stage.sync.end() || sync->second != GradientSync::kFactors) continue;
      AxisMask axes =
          OperandGradient(stage.mesh, context.rules[at.index()], stage.strategies[at.index()], o)
              .partial_axes();
      if (GroupSize(stage.mesh, axes) == 1) continue;
      FactorGradient gradient;
      gradient.node = at;
      gradient.operand = o;
      gradient.axes = axes;
      found.push_back(std::move(gradient));
    }
  }
  return found;
}

void ConnectFactorGradients(const LoweringContext& context, StageProgram& stage) {
  Connector connector(context, stage);
  for (FactorGradient& gradient : stage.factor_gradients) connector.Connect(gradient);
}

}  // namespace heddle
