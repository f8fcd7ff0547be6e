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
  // A micro-batch (-1: none), and whether its segment, of a unit that is recomputed (-1: it is not), runs once more.
  struct Context {
    int microbatch = -1;
    int unit = -1;
    bool again = false;
  };

  // All arguments must outlive it.
  SegmentEmitter(const Program& program, const Plan& plan, InstructionList& list)
      : program_(program), plan_(plan), list_(list), owner_(plan.stages.size()) {}

  const StageProgram& stage(int s) const { return program_.stages[static_cast<size_t>(s)]; }
  const Local& local(int s, int l) const { return stage(s).locals[static_cast<size_t>(l)]; }
  const Segment& segment(int s, int g) const { return stage(s).segments[static_cast<size_t>(g)]; }

  // A pass over the segments of a stage, forward or backward; stage -1: none.
  struct Pass {
    int stage = -1;
    bool forward = true;
  };
  // `next`: the pass after it, if it is known.
  void BeginPass(const Pass& pass, const Pass& next);
  void EmitForward(int s, int g, const Context& context);
  void EmitBackward(int s, int g, Half half, int microbatch);
  // Brings the factors of a segment's gradients, and computes these, too.
  void EmitFactors(int s, int g, int microbatch, bool computes);

  // The buffer of a Local, made now if nothing has made it yet.
  BufferId Provide(int s, int l, const Context& context);
  // That of a Local which comes from another stage, and is kept.
  BufferId Arriving(int s, int l, int microbatch);
  // Those of a parameter group: ZeRO 2 and 3 reduce what each micro-batch adds.
  BufferId GradientsOf(int s, int g, int microbatch);

 private:
  const ParameterGroup& group(int s, int g) const {
    return stage(s).groups[static_cast<size_t>(g)];
  }
  bool Exists(const Buffer& b) { return list_.Exists(b); }
  BufferId Get(const Buffer& b, bool persistent = false) { return list_.Get(b, persistent); }
  Instruction& Add(Opcode op, Stream stream, int s, int index, int microbatch) {
    return list_.Add(op, stream, s, index, microbatch);
  }

  // The unit of a Local that is recomputed with it, or -1; kUnknown before it is made.
  int& OwnerOf(int s, int l);
  int VersionOf(int s, int l, const Context& context);
  Buffer LocalBuffer(int s, int l, const Context& context);
  Buffer SavedBuffer(int s, int g, int microbatch) const {
    return {BufferKind::kSaved, s, g, microbatch, 0};
  }
  BufferId WeightsOf(int s, int g);
  BufferId AddSum(int s, int l, const Buffer& buffer, BufferIds terms);
  void BringWeights(int s, int g, Half half, int microbatch);
  std::vector<int> SpilledOf(int s, int shard) const;
  void EnterShard(int s, const Segment& at, Half half, int microbatch);
  // ZeRO 3: a group of a stage and the block that reads it.
  struct GatheredGroup {
    int stage = -1, group = -1, block = -1;
  };
  // In the order in which a pass needs them.
  std::vector<GatheredGroup> GatherOrder(const Pass& pass) const;
  void GatherFor(int s, int g);
  void GatherForNextPass(size_t first, int ahead);
  void Gather(const GatheredGroup& at, std::map<std::pair<int, int>, int>& gathered);
  void GatherAgain(int s, int g, int microbatch);
  int NextBackward(int s, int g) const;

  const Program& program_;
  const Plan& plan_;
  InstructionList& list_;
  static constexpr int kUnknown = -2;
  std::vector<std::vector<int>> owner_;          // by stage and Local
  std::map<std::pair<int, int>, int> gathered_;  // by stage and group: the gathering at hand
  std::map<std::pair<int, int>, int> gathered_next_;  // ... for the next pass
  std::vector<GatheredGroup> gather_order_, next_order_;
  int next_gather_ = 0;
  std::tuple<int, int, bool, int> entered_{-1, -1, false,
                                           -1};  // stage, shard, forward, micro-batch
};

}  // namespace heddle
