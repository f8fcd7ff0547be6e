#include "program/gather_again.h"

#include <algorithm>
#include <map>

namespace heddle {
namespace {

bool IsGathered(const StageProgram& stage, int l) {
  const Local& local = stage.locals[static_cast<size_t>(l)];
  if (local.source.kind != SourceKind::kReshard || local.once || local.gradient) return false;
  return stage.steps[static_cast<size_t>(local.source.step)].kind == StepKind::kAllGather;
}

// Which inputs a segment keeps for backward, and of which an output may be a view.
struct InputUse {
  bool kept = false;
  bool leaves = false;
};

std::vector<InputUse> UsesOf(const Model& model, const StageProgram& stage,
                             const Segment& segment) {
  std::vector<InputUse> uses(segment.inputs.size());
  std::map<ValueId, int> views;  // values that look at an input
  for (size_t n = 0; n < segment.nodes.size(); ++n) {
    const Node& node = model.graph.node(segment.nodes[n]);
    const Rule& rule = model.rules[segment.nodes[n].index()];
    auto input_of = [&](ValueId id) {
      auto operand = std::find(node.operands.begin(), node.operands.end(), id);
      if (operand != node.operands.end()) {
        int input = segment.operands[n][static_cast<size_t>(operand - node.operands.begin())].input;
        if (input >= 0) return input;
      }
      auto view = views.find(id);
      return view == views.end() ? -1 : view->second;
    };
    if (rule.view) {
      int input = input_of(node.operands[0]);
      for (ValueId id : node.results) {
        if (input >= 0) views[id] = input;
      }
    }
    for (ValueId id : KeptBy(node, rule, model.flow).values) {
      int input = input_of(id);
      if (input >= 0) uses[static_cast<size_t>(input)].kept = true;
    }
  }
  for (const SegmentOutput& output : segment.outputs) {
    auto view = views.find(stage.locals[static_cast<size_t>(output.local)].value);
    if (view != views.end()) uses[static_cast<size_t>(view->second)].leaves = true;
  }
  return uses;
}

}  // namespace

void MarkGatheredAgain(const LoweringContext& context, StageBuild& build) {
  StageProgram& stage = build.stage;
  std::vector<bool> fits(stage.locals.size());
  for (size_t l = 0; l < fits.size(); ++l) fits[l] = IsGathered(stage, static_cast<int>(l));
  // Of a chain of gathers the last is the one that is read.
  auto forbid = [&](int l) {
    if (l >= 0) fits[static_cast<size_t>(l)] = false;
  };
  for (const Local& local : stage.locals) {
    SourceKind kind = local.source.kind;
    if (kind == SourceKind::kReshard || kind == SourceKind::kMicrobatchSum)
      forbid(local.source.from);
    for (int term : local.source.terms) forbid(term);
  }
  for (const auto& [id, crossing] : build.sent) forbid(crossing.local);
  for (const FactorGradient& gradient : stage.factor_gradients) {
    for (int factor : gradient.factors) forbid(factor);
  }
  std::vector<std::vector<InputUse>> uses;
  for (const Segment& segment : stage.segments) {
    uses.push_back(UsesOf(context.expanded.model, stage, segment));
    bool again = segment.phase == Phase::kMain && segment.has_backward && segment.unit < 0;
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      if (!again || uses.back()[i].leaves) forbid(segment.inputs[i].local);
    }
  }
  for (size_t s = 0; s < stage.segments.size(); ++s) {
    for (size_t i = 0; i < stage.segments[s].inputs.size(); ++i) {
      SegmentInput& input = stage.segments[s].inputs[i];
      input.again = fits[static_cast<size_t>(input.local)] && uses[s][i].kept;
    }
  }
}

}  // namespace heddle
