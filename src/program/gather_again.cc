#include "program/gather_again.h"

#include <algorithm>
#include <map>

namespace heddle {
namespace {

bool IsGathered(const StageProgram& stage, LocalId l) {
  const Local& local = stage.locals[l];
  if (!local.Is<FromReshard>() || local.once || local.gradient) return false;
  return stage.steps[local.As<FromReshard>().step].kind == StepKind::kAllGather;
}

// Which inputs a segment keeps for backward, and of which an output may be a view.
struct InputUse {
  bool kept = false;
  bool leaves = false;
};

using InputUses = IdVector<SegmentInputId, InputUse>;

InputUses UsesOf(const Model& model, const StageProgram& stage, const Segment& segment) {
  InputUses uses(segment.inputs.size());
  std::map<ValueId, SegmentInputId> views;  // values that look at an input
  for (size_t n = 0; n < segment.nodes.size(); ++n) {
    const Node& node = model.graph.node(segment.nodes[n]);
    const Rule& rule = model.rules[segment.nodes[n].index()];
    auto input_of = [&](ValueId id) {
      auto operand = std::find(node.operands.begin(), node.operands.end(), id);
      if (operand != node.operands.end()) {
        auto ref = segment.operands[n].begin() + (operand - node.operands.begin());
        if (ref->input.valid()) return ref->input;
      }
      auto view = views.find(id);
      return view == views.end() ? SegmentInputId{} : view->second;
    };
    if (rule.view) {
      SegmentInputId input = input_of(node.operands[0]);
      for (ValueId id : node.results) {
        if (input.valid()) views[id] = input;
      }
    }
    for (ValueId id : KeptBy(node, rule, model.flow).values) {
      SegmentInputId input = input_of(id);
      if (input.valid()) uses[input].kept = true;
    }
  }
  for (const SegmentOutput& output : segment.outputs) {
    auto view = views.find(stage.locals[output.local].value);
    if (view != views.end()) uses[view->second].leaves = true;
  }
  return uses;
}

}  // namespace

void MarkGatheredAgain(const LoweringContext& context, StageBuild& build) {
  StageProgram& stage = build.stage;
  IdVector<LocalId, bool> fits(stage.locals.size(), false);
  for (LocalId l : fits.ids()) fits[l] = IsGathered(stage, l);
  // Of a chain of gathers the last is the one that is read.
  auto forbid = [&](LocalId l) { fits[l] = false; };
  for (const Local& local : stage.locals) {
    if (local.Is<FromReshard>()) forbid(local.As<FromReshard>().local);
    if (local.Is<FromMicrobatchSum>()) forbid(local.As<FromMicrobatchSum>().local);
    if (local.Is<FromSum>()) {
      for (LocalId term : local.As<FromSum>().terms) forbid(term);
    }
  }
  for (const auto& [id, crossing] : build.sent) forbid(crossing.local);
  for (const FactorGradient& gradient : stage.factor_gradients) {
    for (LocalId factor : gradient.factors) forbid(factor);
  }
  IdVector<SegmentId, InputUses> uses;
  for (const Segment& segment : stage.segments) {
    uses.push_back(UsesOf(context.expanded.model, stage, segment));
    bool again = segment.phase == Phase::kMain && segment.has_backward && !segment.unit.valid();
    for (SegmentInputId i : segment.inputs.ids()) {
      if (!again || uses.back()[i].leaves) forbid(segment.inputs[i].local);
    }
  }
  for (SegmentId s : stage.segments.ids()) {
    for (SegmentInputId i : stage.segments[s].inputs.ids()) {
      SegmentInput& input = stage.segments[s].inputs[i];
      input.again = fits[input.local] && uses[s][i].kept;
    }
  }
}

}  // namespace heddle
