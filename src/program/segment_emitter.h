// The instructions of segments, one after the other, with all that brings their operands: what emit.h puts in order.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "program/instruction_list.h"
#include "program/program.h"

namespace heddle {

class SegmentEmitter {
 public:
  // A micro-batch (-1: none), and whether its segment, of a unit that is recomputed (invalid: it is not), runs once more.
  struct Context {
    int microbatch = -1;
    UnitId unit = {};
    bool again = false;
  };

  // All arguments must outlive it.
  SegmentEmitter(const Program& program, const Plan& plan, InstructionList& list)
      : program_(program), plan_(plan), list_(list), owners_(plan.stages.size()) {}

  const StageProgram& stage(StageId s) const { return program_.stages[s]; }
  const Local& local(StageId s, LocalId l) const { return stage(s).locals[l]; }
  const Segment& segment(StageId s, SegmentId g) const { return stage(s).segments[g]; }

  // A pass over the segments of a stage, forward or backward; of no stage: none.
  struct Pass {
    StageId stage = {};
    bool forward = true;
  };
  // The pass at hand. Segments are emitted in it, and in none that ended when another began.
  class OpenPass {
   public:
    StageId stage() const { return stage_; }

   private:
    friend class SegmentEmitter;
    OpenPass(StageId stage, int number) : stage_(stage), number_(number) {}
    StageId stage_;
    int number_;
  };
  // `next`: the pass after it, if it is known, whose weights come ahead.
  [[nodiscard]] OpenPass BeginPass(const Pass& pass, const Pass& next);
  void EmitForward(const OpenPass& pass, SegmentId g, const Context& context);
  void EmitBackward(const OpenPass& pass, SegmentId g, Half half, int microbatch);
  // Brings the factors of a segment's gradients, and computes these, too.
  void EmitFactors(const OpenPass& pass, SegmentId g, int microbatch, bool computes);

  // The buffer of a Local, made now if nothing has made it yet. Weights that are on the device for a while only are there
  // in the passes that read them.
  BufferId Provide(StageId s, LocalId l, const Context& context);
  // That of a Local which comes from another stage, and is kept.
  BufferId Arriving(StageId s, LocalId l, int microbatch);
  // Those of a parameter group: ZeRO 2 and 3 reduce what each micro-batch adds.
  BufferId GradientsOf(StageId s, ParameterGroupId g, int microbatch);

 private:
  const ParameterGroup& group(StageId s, ParameterGroupId g) const { return stage(s).groups[g]; }
  // The group that has a Local which is a parameter; invalid: the Local is none.
  ParameterGroupId GroupOf(StageId s, LocalId l) const {
    const Local& at = local(s, l);
    return at.Is<FromParameter>() ? at.As<FromParameter>().group : ParameterGroupId{};
  }
  bool Exists(const Buffer& b) { return list_.Exists(b); }
  BufferId Get(const Buffer& b, bool persistent = false) { return list_.Get(b, persistent); }
  Instruction& Add(Opcode op, StageId s, InstructionTarget target, int microbatch) {
    return list_.Add(op, s, target, microbatch);
  }

  // The stage of a pass, which must be the last that began.
  StageId StageOf(const OpenPass& pass) const {
    HEDDLE_CHECK_EQ(pass.number_, passes_);
    return pass.stage_;
  }
  // The unit that a Local is recomputed with (recompute_owners.h); invalid: it is kept.
  UnitId OwnerOf(StageId s, LocalId l);
  int VersionOf(StageId s, LocalId l, const Context& context);
  Buffer LocalBuffer(StageId s, LocalId l, const Context& context);
  Buffer SavedBuffer(StageId s, SegmentId g, int microbatch) const {
    return {BufferKind::kSaved, s, g, microbatch, 0};
  }
  BufferId WeightsOf(StageId s, ParameterGroupId g);
  BufferId AddReshard(StageId s, LocalId l, const Buffer& buffer, const Context& context);
  BufferId AddSum(StageId s, LocalId l, const Buffer& buffer, BufferIds terms);
  void BringWeights(StageId s, SegmentId g, Half half, int microbatch);
  std::vector<ParameterGroupId> SpilledOf(StageId s, int shard) const;
  void EnterShard(StageId s, const Segment& at, Half half, int microbatch);
  // ZeRO 3: a group of a stage and the block that reads it.
  struct GatheredGroup {
    StageId stage;
    ParameterGroupId group;
    BlockId block;
  };
  // Which of the gatherings a group's weights come from.
  using Gathered = std::map<std::pair<StageId, ParameterGroupId>, int>;
  // In the order in which a pass needs them.
  std::vector<GatheredGroup> GatherOrder(const Pass& pass) const;
  void GatherFor(StageId s, SegmentId g);
  void GatherForNextPass(size_t first, int ahead);
  void Gather(const GatheredGroup& at, Gathered& gathered);
  void GatherAgain(StageId s, SegmentId g, int microbatch);
  // The segment whose backward comes after that of this one; invalid: none.
  SegmentId NextBackward(StageId s, SegmentId g) const;

  const Program& program_;
  const Plan& plan_;
  InstructionList& list_;
  IdVector<StageId, IdVector<LocalId, UnitId>> owners_;  // of stages that were asked for
  Gathered gathered_, gathered_next_;                    // at hand; for the next pass
  std::vector<GatheredGroup> gather_order_, next_order_;
  int passes_ = 0;  // that have begun
  int next_gather_ = 0;
  // The stage, shard, direction and micro-batch whose weights were brought last.
  std::tuple<StageId, int, bool, int> entered_{{}, -1, false, -1};
};

}  // namespace heddle
