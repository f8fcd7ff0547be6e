#include "program/segment_halves.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

// Gradients of weights are computed in W if they are matrix products, or if backward needs nothing else of their node.
void SetLate(const LoweringContext& context, const Locals& locals, Segment& segment) {
  auto once = [&](const SegmentInput& input) { return locals[input.local].once; };
  IdVector<SegmentInputId, bool> early(segment.inputs.size(), false);
  IdVector<SegmentInputId, int> readers(segment.inputs.size(), 0);
  for (size_t n = 0; n < segment.nodes.size(); ++n) {
    const std::vector<WorkTerm>& work = context.rules[segment.nodes[n].index()].work;
    bool product = std::any_of(work.begin(), work.end(),
                               [](const WorkTerm& term) { return term.contraction; });
    bool others = false;
    for (size_t o = 0; o < segment.operands[n].size(); ++o) {
      SegmentInputId input = segment.operands[n][o].input;
      bool whole_step = input.valid() && once(segment.inputs[input]);
      // Autograd from the second of two readers of a weight would pass through the first again.
      if (input.valid() && ++readers[input] > 1) early[input] = true;
      others =
          others || (!whole_step && WantsGradient(context.expanded.model, segment.nodes[n], o));
    }
    if (product || !others) continue;
    for (const OperandRef& ref : segment.operands[n]) {
      if (ref.input.valid()) early[ref.input] = true;
    }
  }
  for (SegmentInputId i : early.ids()) {
    SegmentInput& input = segment.inputs[i];
    bool wanted = input.trained || input.gradient.valid();
    input.late = wanted && once(input) && !early[i];
  }
}

void SetBackward(Segment& segment) {
  segment.has_backward =
      std::any_of(segment.outputs.begin(), segment.outputs.end(),
                  [](const SegmentOutput& output) { return output.gradient.valid(); });
  HEDDLE_CHECK(segment.has_backward || segment.phase != Phase::kMain ||
                   std::none_of(segment.inputs.begin(), segment.inputs.end(),
                                [](const SegmentInput& input) {
                                  return input.gradient.valid() || input.trained;
                                }),
               "gradients are wanted of a segment that gets none");
}

}  // namespace

void SetHalves(const LoweringContext& context, const Locals& locals, Segment& segment) {
  SetBackward(segment);
  SetLate(context, locals, segment);
}

}  // namespace heddle
