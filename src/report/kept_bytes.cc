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
    for (size_t s = 0; s < stage_.segments.size(); ++s) {
      const Segment& segment = stage_.segments[s];
      if (segment.phase != Phase::kMain || !segment.has_backward) continue;
      if (segment.unit < 0) {
        for (StorageRef ref : memory_[s].keeping.kept) Keep(s, ref, NodeId{});
        KeepToGather(segment);
      } else {
        KeepStartOf(s);
      }
    }
  }

 private:
  const HalfMemory& HalfOf(size_t s) const {
    bool keeps = stage_.segments[s].has_backward && stage_.segments[s].unit < 0;
    return keeps ? memory_[s].keeping : memory_[s].forward;
  }

  // What is gathered again is kept as it was before.
  void KeepToGather(const Segment& segment) {
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      if (!segment.inputs[i].again) continue;
      int gathered = segment.inputs[i].local;
      KeepLocal(Source(gathered).from, ReaderOf(segment, static_cast<int>(i)));
    }
  }

  // The inputs of a recomputed segment that no segment recomputed with it makes.
  void KeepStartOf(size_t s) {
    const Segment& segment = stage_.segments[s];
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      int from = segment.inputs[i].local;
      while (Source(from).kind == SourceKind::kReshard) from = Source(from).from;
      bool inside = Source(from).kind == SourceKind::kSegment &&
                    stage_.segments[static_cast<size_t>(Source(from).from)].unit == segment.unit;
      if (!inside) Keep(s, ~static_cast<StorageRef>(i), NodeId{});
    }
  }

  const heddle::Source& Source(int local) const {
    return stage_.locals[static_cast<size_t>(local)].source;
  }

  // A storage as a segment names it; `reader` is the first that asked for it, where that was another segment's.
  void Keep(size_t s, StorageRef ref, NodeId reader) {
    const Segment& segment = stage_.segments[s];
    if (ref >= 0) {
      const MadeStorage& made = HalfOf(s).made[static_cast<size_t>(ref)];
      if (!made_.insert({s, ref}).second) return;
      add_(segment.nodes[static_cast<size_t>(made.node)], static_cast<double>(made.bytes));
      return;
    }
    int input = ~ref;
    if (!reader.valid()) reader = ReaderOf(segment, input);
    KeepLocal(segment.inputs[static_cast<size_t>(input)].local, reader);
  }

  void KeepLocal(int index, NodeId reader) {
    const Local& local = stage_.locals[static_cast<size_t>(index)];
    if (local.once) return;
    if (local.source.kind == SourceKind::kSegment) {
      size_t from = static_cast<size_t>(local.source.from);
      const std::vector<SegmentOutput>& outputs = stage_.segments[from].outputs;
      for (size_t o = 0; o < outputs.size(); ++o) {
        if (outputs[o].local == index) Keep(from, HalfOf(from).results[o], reader);
      }
    } else if (locals_.insert(index).second) {
      auto elements =
          static_cast<double>(ElementCount(LocalShape(stage_.mesh, local.sharding, position_)));
      add_(reader, elements * static_cast<double>(SizeOf(local.dtype)));
    }
  }

  static NodeId ReaderOf(const Segment& segment, int input) {
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
  std::vector<SegmentMemory> memory_;
  std::set<std::pair<size_t, StorageRef>> made_;
  std::set<int> locals_;
};

}  // namespace

void AddKept(const Program& program, const StageProgram& stage,
             const std::function<void(NodeId, double)>& add) {
  Keeping(program, stage, add).Run();
}

}  // namespace heddle
