#include "program/recompute_owners.h"

#include <vector>

namespace heddle {
namespace {

class OwnerFinder {
 public:
  explicit OwnerFinder(const StageProgram& stage) : stage_(stage) {
    owners_.resize(stage.locals.size());
    decided_.resize(stage.locals.size());
  }

  IdVector<LocalId, UnitId> Run() {
    for (Phase phase : {Phase::kOnce, Phase::kFirst, Phase::kMain}) {
      for (const Segment& segment : stage_.segments) {
        if (segment.phase == phase) AddSegment(segment);
      }
    }
    return std::move(owners_);
  }

 private:
  void AddSegment(const Segment& segment) {
    UnitId unit = segment.phase == Phase::kMain ? segment.unit : UnitId{};
    for (const SegmentInput& input : segment.inputs) Provide(input.local, unit);
    for (const SegmentOutput& output : segment.outputs) {
      if (!stage_.locals[output.local].once) Decide(output.local, unit);
    }
  }

  // A Local, and those that it is made from, brought for a segment of a unit.
  void Provide(LocalId id, UnitId unit) {
    const Local& local = stage_.locals[id];
    bool kept = local.Is<FromParameter>() || local.Is<FromConstant>() || local.Is<FromTransfer>();
    if (kept || decided_[id]) return;
    if (local.once || local.Is<FromLoad>()) unit = {};
    Decide(id, unit);
    if (local.Is<FromReshard>()) Provide(local.As<FromReshard>().local, unit);
    if (local.Is<FromMicrobatchSum>()) Provide(local.As<FromMicrobatchSum>().local, {});
    if (!local.Is<FromSum>()) return;
    for (LocalId term : local.As<FromSum>().terms) Provide(term, unit);
  }

  void Decide(LocalId id, UnitId unit) {
    if (decided_[id]) return;
    decided_[id] = true;
    owners_[id] = unit;
  }

  const StageProgram& stage_;
  IdVector<LocalId, UnitId> owners_;
  IdVector<LocalId, char> decided_;
};

}  // namespace

IdVector<LocalId, UnitId> FindRecomputeOwners(const StageProgram& stage) {
  return OwnerFinder(stage).Run();
}

}  // namespace heddle
