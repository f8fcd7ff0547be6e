#include "sim/kept.h"

#include "sim/kept_internal.h"

namespace heddle {
namespace {

std::vector<std::pair<ParameterGroupId, int64_t>> GradientsOf(const kept::SegmentView& view) {
  std::vector<std::pair<ParameterGroupId, int64_t>> gradients;
  const kept::StageView& at = view.stage();
  for (const SegmentInput& input : view.segment().inputs) {
    if (!input.trained) continue;
    const Local& local = at.local(input.local);
    int64_t bytes = LocalElements(at.stage.mesh, local.sharding, at.position) * SizeOf(local.dtype);
    gradients.push_back({local.As<FromParameter>().group, bytes});
  }
  return gradients;
}

}  // namespace

IdVector<SegmentId, SegmentMemory> MemoryOfSegments(const Program& program,
                                                    const StageProgram& stage,
                                                    const Position& position, bool split,
                                                    const MemoryHabits& habits) {
  using namespace kept;
  StageView at{program,
               stage,
               position,
               habits,
               IdVector<LocalId, bool>(stage.locals.size(), true),
               SegmentFlow(program, stage)};
  IdVector<SegmentId, SegmentMemory> all;
  all.reserve(stage.segments.size());
  for (const Segment& segment : stage.segments) {
    SegmentView view(at, segment);
    SegmentMemory memory;
    std::vector<Keeper> keepers;
    memory.forward = TraceForward(view, false, &keepers, &at.row_major);
    if (segment.has_backward) {
      memory.keeping = TraceForward(view, true, &keepers, &at.row_major);
      memory.backward = TraceBackward(view, keepers, Half::kBW, false);
      if (split) {
        memory.inputs = TraceBackward(view, keepers, Half::kB, habits.frees_after_b);
        memory.weights = TraceWeights(view);
      }
      if (habits.eager) memory.gradients = GradientsOf(view);
    }
    all.push_back(std::move(memory));
  }
  return all;
}

}  // namespace heddle
