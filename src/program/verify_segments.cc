// Checks the inputs and outputs of segments against the strategies of their nodes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ops/gradient_factors.h"
#include "program/stage_builder.h"
#include "program/verify_parts.h"

namespace heddle {
namespace {

class SegmentCheck {
 public:
  SegmentCheck(const Program& program, StageId stage, SegmentId segment, Findings& findings)
      : program_(program),
        stage_(program.stages[stage]),
        segment_(stage_.segments[segment]),
        findings_(findings),
        place_(fmt::format("stage {}, segment {}", stage, segment)) {}

  void Run() {
    for (size_t n = 0; n < segment_.nodes.size(); ++n) {
      NodeId id = segment_.nodes[n];
      const Node& node = program_.model.graph.node(id);
      for (size_t o = 0; o < node.operands.size(); ++o)
        CheckOperand(id, o, segment_.operands[n][o].input);
      for (size_t r = 0; r < node.results.size(); ++r) made_[node.results[r]] = {id, r};
    }
    for (const SegmentOutput& output : segment_.outputs) CheckOutput(output);
  }

 private:
  struct Made {
    NodeId node;
    size_t result = 0;
  };

  const Local& local(LocalId id) const { return stage_.locals[id]; }
  const Rule& rule(NodeId id) const { return program_.micro_rules[id.index()]; }
  const Strategy& strategy(NodeId id) const { return stage_.strategies[id.index()]; }
  std::string Show(const Sharding& sharding) const { return ToString(stage_.mesh, sharding); }

  void Wrong(ValueId id, const std::string& why) {
    findings_.Add(fmt::format("{}: {}: {}", place_, program_.model.graph.value(id).name, why));
  }
  void Compare(ValueId id, const Sharding& is, const Sharding& wanted, std::string_view what) {
    if (SameLayout(stage_.mesh, is, wanted)) return;
    Wrong(id, fmt::format("{} is in {}, must be in {}", what, Show(is), Show(wanted)));
  }

  void CheckOperand(NodeId id, size_t o, SegmentInputId input) {
    ValueId value = program_.model.graph.node(id).operands[o];
    Sharding wanted = OperandSharding(stage_.mesh, rule(id), strategy(id), o);
    bool back = segment_.phase != Phase::kFirst && WantsGradient(program_.model, id, o) &&
                FindFactorGradient(stage_, id, o) == nullptr;
    Sharding gradient = OperandGradient(stage_.mesh, rule(id), strategy(id), o);
    if (!input.valid()) return CheckInside(value, wanted, back ? &gradient : nullptr);
    const SegmentInput& at = segment_.inputs[input];
    if (local(at.local).value != value) return Wrong(value, "the input is of another value");
    Compare(value, local(at.local).sharding, wanted, "an input");
    if (back != (at.trained || at.gradient.valid())) {
      return Wrong(
          value, back ? "nothing takes its gradient" : "a gradient is asked for that there is not");
    }
    if (at.gradient.valid())
      Compare(value, local(at.gradient).sharding, gradient, "the gradient of an input");
    if (at.trained) CheckTrained(value, at, gradient);
    if (at.again && !IsGathered(at.local))
      Wrong(value, "it is gathered again and was never gathered");
  }

  bool IsGathered(LocalId l) const {
    return local(l).Is<FromReshard>() &&
           stage_.steps[local(l).As<FromReshard>().step].kind == StepKind::kAllGather;
  }

  void CheckInside(ValueId value, const Sharding& wanted, const Sharding* gradient) {
    auto made = made_.find(value);
    if (made == made_.end()) return Wrong(value, "it is read before it is made");
    auto [id, r] = made->second;
    Compare(value, ResultSharding(stage_.mesh, rule(id), strategy(id), r), wanted, "a result");
    if (gradient == nullptr) return;
    Compare(value, *gradient, ResultGradient(stage_.mesh, rule(id), strategy(id), r),
            "the gradient of a result");
  }

  void CheckTrained(ValueId value, const SegmentInput& input, const Sharding& gradient) {
    if (!local(input.local).Is<FromParameter>())
      return Wrong(value, "it is trained and no parameter");
    if (input.partial_axes != gradient.partial_axes())
      Wrong(value, "its partial_axes are not those of its gradient");
    const ParameterGroup& group = stage_.groups[local(input.local).As<FromParameter>().group];
    if ((input.partial_axes & ~group.reduce_axes) != 0) {
      Wrong(value, "its gradient is partial along an axis that its group does not reduce");
    }
  }

  void CheckOutput(const SegmentOutput& output) {
    ValueId value = local(output.local).value;
    auto made = made_.find(value);
    if (made == made_.end()) return Wrong(value, "it is an output and not made here");
    auto [id, r] = made->second;
    Compare(value, local(output.local).sharding,
            ResultSharding(stage_.mesh, rule(id), strategy(id), r), "an output");
    if (!output.gradient.valid()) return;
    if (local(output.gradient).value != value)
      return Wrong(value, "its gradient is of another value");
    Compare(value, local(output.gradient).sharding,
            ResultGradient(stage_.mesh, rule(id), strategy(id), r), "the gradient of an output");
  }

  const Program& program_;
  const StageProgram& stage_;
  const Segment& segment_;
  Findings& findings_;
  std::string place_;
  std::map<ValueId, Made> made_;
};

// A gradient from factors against the strategy of its node without the axes they are gathered over.
class FactorCheck {
 public:
  FactorCheck(const Program& program, StageId stage, FactorGradientId gradient, Findings& findings)
      : stage_(program.stages[stage]),
        at_(stage_.factor_gradients[gradient]),
        node_(program.model.graph.node(at_.node)),
        rule_(program.micro_rules[at_.node.index()]),
        strategy_(FactorStrategy(stage_, at_)),
        findings_(findings),
        place_(fmt::format("stage {}, factor gradient {}", stage, gradient)) {}

  void Run() {
    const Segment& segment = stage_.segments[at_.segment];
    bool runs = segment.phase == Phase::kMain &&
                std::count(segment.nodes.begin(), segment.nodes.end(), at_.node) == 1;
    if (!runs) Wrong("its segment does not run its node");
    const GradientFactors* known = FindGradientFactors(node_, at_.operand);
    if (known == nullptr || at_.factors.size() != known->operands.size() + 1)
      return Wrong("these are not the factors of the operand's gradient");
    for (size_t f = 0; f < known->operands.size(); ++f) {
      size_t o = known->operands[f];
      Compare(at_.factors[f], node_.operands[o], false,
              OperandSharding(stage_.mesh, rule_, strategy_, o));
    }
    Compare(at_.factors.back(), node_.results[0], true,
            ResultGradient(stage_.mesh, rule_, strategy_, 0));
    Compare(at_.parameter, node_.operands[at_.operand], false,
            OperandSharding(stage_.mesh, rule_, strategy_, at_.operand));
    AxisMask partial = OperandGradient(stage_.mesh, rule_, strategy_, at_.operand).partial_axes();
    if (GroupSize(stage_.mesh, partial) > 1) Wrong("it is partial although it is gathered");
    const FromParameter& source = stage_.locals[at_.parameter].As<FromParameter>();
    AxisMask reduced = stage_.groups[source.group].reduce_axes;
    if (GroupSize(stage_.mesh, reduced) > 1) Wrong("its group is reduced although it is complete");
  }

 private:
  void Wrong(std::string_view why) { findings_.Add(fmt::format("{}: {}", place_, why)); }

  void Compare(LocalId id, ValueId value, bool gradient, const Sharding& wanted) {
    const Local& local = stage_.locals[id];
    if (local.value != value || local.gradient != gradient)
      return Wrong("a Local is of another value");
    if (SameLayout(stage_.mesh, local.sharding, wanted)) return;
    Wrong(fmt::format("a Local is in {}, must be in {}", ToString(stage_.mesh, local.sharding),
                      ToString(stage_.mesh, wanted)));
  }

  const StageProgram& stage_;
  const FactorGradient& at_;
  const Node& node_;
  const Rule& rule_;
  const Strategy strategy_;
  Findings& findings_;
  std::string place_;
};

}  // namespace

void CheckSegments(const Program& program, Findings& findings) {
  for (StageId s : program.stages.ids()) {
    for (SegmentId g : program.stages[s].segments.ids())
      SegmentCheck(program, s, g, findings).Run();
    for (FactorGradientId f : program.stages[s].factor_gradients.ids())
      FactorCheck(program, s, f, findings).Run();
  }
}

}  // namespace heddle
