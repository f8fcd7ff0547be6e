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
    size_t place = 0;
    for (size_t s = 0; s < stage_.segments.size(); ++s) {
      const std::vector<NodeId>& nodes = stage_.segments[s].nodes;
      auto found = std::find(nodes.begin(), nodes.end(), gradient.node);
      if (stage_.segments[s].phase != Phase::kMain || found == nodes.end()) continue;
      gradient.segment = static_cast<int>(s);
      place = static_cast<size_t>(found - nodes.begin());
    }
    const Segment& segment = stage_.segments[static_cast<size_t>(gradient.segment)];
    for (size_t o : FindGradientFactors(node, gradient.operand)->operands) {
      int input = segment.operands[place][o].input;
      int from = input < 0 ? OutputOf(segment, node.operands[o]).local
                           : segment.inputs[static_cast<size_t>(input)].local;
      gradient.factors.push_back(Gathered(from, OperandSharding(stage_.mesh, rule, strategy, o)));
    }
    gradient.factors.push_back(Gathered(OutputOf(segment, node.results[0]).gradient,
                                        ResultGradient(stage_.mesh, rule, strategy, 0)));
  }

 private:
  const Local& local(int l) const { return stage_.locals[static_cast<size_t>(l)]; }

  int StoredAs(ValueId parameter) const {
    for (size_t l = 0; l < stage_.locals.size(); ++l) {
      const Local& at = stage_.locals[l];
      if (at.source.kind == SourceKind::kParameter && at.value == parameter)
        return static_cast<int>(l);
    }
    HEDDLE_CHECK(false, "parameter {} is not stored", parameter.value);
    return -1;
  }

  const SegmentOutput& OutputOf(const Segment& segment, ValueId id) const {
    auto found = std::find_if(segment.outputs.begin(), segment.outputs.end(),
                              [&](const SegmentOutput& at) { return local(at.local).value == id; });
    HEDDLE_CHECK(found != segment.outputs.end(), "value {} does not leave its segment", id.value);
    return *found;
  }

  // Inputs and constants are there whole.
  int Gathered(int from, const Sharding& whole) {
    if (local(from).sharding == whole) return from;
    for (const auto& [source, made] : gathered_) {
      if (source == from && local(made).sharding == whole) return made;
    }
    SourceKind kind = local(from).source.kind;
    if (kind == SourceKind::kLoad || kind == SourceKind::kConstant) {
      Local there = local(from);
      there.sharding = whole;
      stage_.locals.push_back(std::move(there));
      gathered_.push_back({from, static_cast<int>(stage_.locals.size()) - 1});
    } else {
      gathered_.push_back({from, AddChain(stage_, from, whole)});
    }
    return gathered_.back().second;
  }

  const Graph& graph_;
  const Rules& rules_;
  StageProgram& stage_;
  std::vector<std::pair<int, int>> gathered_;  // Locals, before and after
};

}  // namespace

std::vector<FactorGradient> FindFactorGradients(const LoweringContext& context, int index) {
  const Model& model = context.expanded.model;
  const Stage& stage = context.expanded.stages[static_cast<size_t>(index)];
  std::vector<FactorGradient> found;
  if (stage.sync.empty()) return found;
  for (NodeId id : NodesOf(model, stage)) {
    const Node& node = model.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      auto sync = stage.sync.find(node.operands[o]);
      if (sync == stage.sync.end() || sync->second != GradientSync::kFactors) continue;
      AxisMask axes =
          OperandGradient(stage.mesh, context.rules[id.index()], stage.strategies[id.index()], o)
              .partial_axes();
      if (GroupSize(stage.mesh, axes) == 1) continue;
      FactorGradient gradient;
      gradient.node = id;
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
