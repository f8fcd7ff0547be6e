#include "report/kept_bytes.h"

#include <set>

#include "sim/kept.h"

namespace heddle {
namespace {

class Keeping {
 public:
  Keeping(const Program& program, const StageProgram& stage,
          const std::function<void(NodeId, double)>& add)
      : stage_(stage),
        add_(add),
        position_(PositionIn(stage, stage.mesh.first)),
        memory_(MemoryOfSegments(program, stage, position_, false)) {}

  void Run() {
    for (SegmentId s : stage_.segments.ids()) {
      const Segment& segment = stage_.segments[s];
      if (segment.phase != Phase::kMain || !segment.has_backward) continue;
      if (!segment.unit.valid()) {
        for (StorageRef ref : memory_[s].keeping.kept) Keep(s, ref, NodeId{});
        KeepToGather(segment);
      } else {
        KeepStartOf(s);
      }
    }
  }

 private:
  const HalfMemory& HalfOf(SegmentId s) const {
    bool keeps = stage_.segments[s].has_backward && !stage_.segments[s].unit.valid();
    return keeps ? memory_[s].keeping : memory_[s].forward;
  }

  // What is gathered again is kept as it was before.
  void KeepToGather(const Segment& segment) {
    for (SegmentInputId i : segment.inputs.ids()) {
      if (!segment.inputs[i].again) continue;
      const Local& gathered = stage_.locals[segment.inputs[i].local];
      KeepLocal(gathered.As<FromReshard>().local, ReaderOf(segment, i));
    }
  }

  // The inputs of a recomputed segment that no segment recomputed with it makes.
  void KeepStartOf(SegmentId s) {
    const Segment& segment = stage_.segments[s];
    for (SegmentInputId i : segment.inputs.ids()) {
      const Local* from = &stage_.locals[segment.inputs[i].local];
      while (from->Is<FromReshard>()) from = &stage_.locals[from->As<FromReshard>().local];
      bool inside = from->Is<FromSegment>() &&
                    stage_.segments[from->As<FromSegment>().segment].unit == segment.unit;
      if (!inside) Keep(s, ~i.value, NodeId{});
    }
  }

  // A storage as a segment names it; `reader` is the first that asked for it, where that was another segment's.
  void Keep(SegmentId s, StorageRef ref, NodeId reader) {
    const Segment& segment = stage_.segments[s];
    if (ref >= 0) {
      const MadeStorage& made = HalfOf(s).made[static_cast<size_t>(ref)];
      if (!made_.insert({s, ref}).second) return;
      add_(segment.nodes[static_cast<size_t>(made.node)], static_cast<double>(made.bytes));
      return;
    }
    SegmentInputId input{~ref};
    if (!reader.valid()) reader = ReaderOf(segment, input);
    KeepLocal(segment.inputs[input].local, reader);
  }

  void KeepLocal(LocalId id, NodeId reader) {
    const Local& local = stage_.locals[id];
    if (local.once) return;
    if (local.Is<FromSegment>()) {
      SegmentId from = local.As<FromSegment>().segment;
      const std::vector<SegmentOutput>& outputs = stage_.segments[from].outputs;
      for (size_t o = 0; o < outputs.size(); ++o) {
        if (outputs[o].local == id) Keep(from, HalfOf(from).results[o], reader);
      }
    } else if (locals_.insert(id).second) {
      auto elements = static_cast<double>(LocalElements(stage_.mesh, local.sharding, position_));
      add_(reader, elements * static_cast<double>(SizeOf(local.dtype)));
    }
  }

  static NodeId ReaderOf(const Segment& segment, SegmentInputId input) {
    for (size_t n = 0; n < segment.nodes.size(); ++n) {
      for (const OperandRef& at : segment.operands[n]) {
        if (at.input == input) return segment.nodes[n];
      }
    }
    return segment.nodes.front();
  }

  const StageProgram& stage_;
  const std::function<void(NodeId, double)>& add_;
  Position position_;
  IdVector<SegmentId, SegmentMemory> memory_;
  std::set<std::pair<SegmentId, StorageRef>> made_;
  std::set<LocalId> locals_;
};

}  // namespace

void AddKept(const Program& program, const StageProgram& stage,
             const std::function<void(NodeId, double)>& add) {
  Keeping(program, stage, add).Run();
}

}  // namespace heddle
