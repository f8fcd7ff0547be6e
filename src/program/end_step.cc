#include <algorithm>
#include <iterator>
#include <map>

#include "program/instruction_list.h"

namespace heddle {
namespace {

class StepEnd {
 public:
  StepEnd(const Program& program, int ahead, InstructionList& list)
      : program_(program), ahead_(ahead), list_(list), run_(list.run()) {}

  void Run() {
    InsertReductions();
    EmitEnd();
  }

 private:
  // A group of a stage.
  struct GroupAt {
    StageId stage;
    ParameterGroupId group;
  };

  const StageProgram& stage(StageId s) const { return program_.stages[s]; }
  const ParameterGroup& group(const GroupAt& at) const { return stage(at.stage).groups[at.group]; }
  GroupAt GroupOf(BufferId id) const { return {run_.buffers[id].stage, run_.buffers[id].group()}; }
  static Buffer Of(BufferKind kind, const GroupAt& at, int version = 0) {
    return {kind, at.stage, at.group, -1, version};
  }
  BufferId Get(const Buffer& b, bool persistent = false) { return list_.Get(b, persistent); }
  Instruction& Add(Opcode op, const GroupAt& at, int microbatch = -1) {
    return list_.Add(op, at.stage, at.group, microbatch);
  }

  using ByInstruction = std::multimap<size_t, BufferId>;

  // Gradients are reduced once the last of them has been added, and what the next segment, or the stage before,
  // waits for is on its way.
  void InsertReductions() {
    IdVector<BufferId, size_t> last(run_.buffers.size(), kNever);  // the last that adds to it
    for (size_t i = run_.instructions.size(); i-- > 0;) {
      for (BufferId id : run_.instructions[i].adds) {
        bool gradients = run_.buffers[id].kind == BufferKind::kWeightGradients;
        if (gradients && last[id] == kNever) last[id] = i;
      }
    }
    ByInstruction after, before;
    for (BufferId buffer : last.ids()) {
      size_t i = last[buffer], at = i;
      if (i == kNever) continue;
      // Not past the fetches of another visit, which wait for the memory of what is updated here.
      while (at + 1 < run_.instructions.size() && run_.instructions[at + 1].op != Opcode::kRun &&
             run_.instructions[at + 1].visit == run_.instructions[i].visit)
        ++at;
      after.insert({at, buffer});
      if (group(GroupOf(buffer)).spilled)
        before.insert({StartOf(VisitId{run_.instructions[i].visit.value - ahead_}), buffer});
    }
    if (!after.empty()) Insert(before, after);
  }

  // Fetches of state, each before an instruction, and reductions, each after one. Instructions before all of these stay
  // where they are.
  void Insert(const ByInstruction& before, const ByInstruction& after) {
    size_t first = after.begin()->first;
    if (!before.empty()) first = std::min(first, before.begin()->first);
    auto rest = run_.instructions.begin() + static_cast<std::ptrdiff_t>(first);
    std::vector<Instruction> instructions(std::make_move_iterator(rest),
                                          std::make_move_iterator(run_.instructions.end()));
    run_.instructions.resize(first);
    auto fetched = before.begin();
    auto reduced = after.begin();
    for (size_t i = 0; i < instructions.size(); ++i) {
      list_.GoToVisit(instructions[i].visit);
      for (; fetched != before.end() && fetched->first == first + i; ++fetched)
        Fetch(GroupOf(fetched->second));
      run_.instructions.push_back(std::move(instructions[i]));
      for (; reduced != after.end() && reduced->first == first + i; ++reduced) {
        AddReduction(reduced->second);
        GroupAt at = GroupOf(reduced->second);
        if (group(at).spilled) EmitSpilledUpdate(at);
      }
    }
  }

  // The first instruction of a visit, or of the first of all.
  size_t StartOf(VisitId visit) const {
    for (size_t i = 0; i < run_.instructions.size(); ++i) {
      if (run_.instructions[i].visit >= visit) return i;
    }
    return 0;
  }

  // Uses the weights that backward had on the device; they are evicted together with the state.
  void EmitSpilledUpdate(const GroupAt& at) {
    BufferId weights;
    for (const Instruction& instruction : run_.instructions) {
      for (BufferId id : instruction.reads) {
        if (!id.valid()) continue;
        const Buffer& buffer = run_.buffers[id];
        if (buffer.kind == BufferKind::kGathered && buffer.stage == at.stage &&
            buffer.group() == at.group)
          weights = id;
      }
    }
    Instruction& update = Add(Opcode::kUpdate, at);
    update.reads = {FinalGradients(at), weights};
    update.adds = {weights, Optimizer(at)};
    Evict(at);
    Instruction& evict = Add(Opcode::kEvict, at);
    evict.reads = {weights};
    evict.adds = {Get(Of(BufferKind::kHostWeights, at), true)};
  }

  void AddReduction(BufferId gradients) {
    GroupAt at = GroupOf(gradients);
    const ParameterGroup& of = group(at);
    if (GroupSize(stage(at.stage).mesh, of.reduce_axes) == 1) return;
    BufferId reduced = Get(Of(BufferKind::kReduced, at));
    Instruction& reduce = Add(Opcode::kReduceGradients, at, run_.buffers[gradients].microbatch);
    reduce.reads = {gradients};
    (SplitsGradients(of.zero) ? reduce.adds : reduce.writes) = {reduced};
  }

  // The buffers that the update of a group reads.
  BufferId FinalGradients(const GroupAt& at) {
    for (int version : {1, 0}) {
      BufferId reduced = list_.Find(Of(BufferKind::kReduced, at, version));
      if (reduced.valid()) return reduced;
    }
    return Get(Of(BufferKind::kWeightGradients, at));
  }

  void EmitEnd() {
    FindUpdates();
    FetchFor(0);
    for (StageId s : run_.stages) {
      for (ParameterGroupId g : stage(s).groups.ids()) EmitShards({s, g});
    }
    for (TiedGroupId tied : program_.tied.ids()) EmitTied(tied);
    EmitReport();
    // State on the host is fetched while the group before is updated, and evicted while the next one is.
    for (size_t u = 0; u < updates_.size(); ++u) {
      FetchFor(u + 1);
      EmitUpdate(updates_[u]);
    }
  }

  void FindUpdates() {
    for (StageId s : run_.stages) {
      for (ParameterGroupId g : stage(s).groups.ids()) {
        if (group({s, g}).trained && !group({s, g}).spilled) updates_.push_back({s, g});
      }
    }
  }

  BufferId Optimizer(const GroupAt& at) {
    return Get(Of(BufferKind::kOptimizer, at), !group(at).offloaded);
  }
  BufferId OnHost(const GroupAt& at) { return Get(Of(BufferKind::kHostOptimizer, at), true); }

  void FetchFor(size_t update) {
    if (update < updates_.size()) Fetch(updates_[update]);
  }

  void Fetch(const GroupAt& at) {
    if (!group(at).offloaded) return;
    Instruction& fetch = Add(Opcode::kFetch, at);
    fetch.reads = {OnHost(at)};
    fetch.adds = {Optimizer(at)};  // the update adds to it
  }

  void Evict(const GroupAt& at) {
    if (!group(at).offloaded) return;
    Instruction& evict = Add(Opcode::kEvict, at);
    evict.reads = {Optimizer(at)};
    evict.adds = {OnHost(at)};
  }

  void EmitShards(const GroupAt& at) {
    const ParameterGroup& of = group(at);
    if (!SplitsState(of.zero) ||
        GroupSize(stage(at.stage).mesh, of.reduce_axes & ~of.zero_axes) == 1)
      return;
    Instruction& reduce = Add(Opcode::kReduceShards, at);
    reduce.reads = {Get(Of(BufferKind::kReduced, at))};
    reduce.writes = {Get(Of(BufferKind::kReduced, at, 1))};
  }

  void EmitTied(TiedGroupId tied) {
    BufferIds held;
    StageId first;
    for (const auto& [s, g] : program_.tied[tied].holders) {
      if (std::find(run_.stages.begin(), run_.stages.end(), s) == run_.stages.end()) continue;
      held.push_back(FinalGradients({s, g}));
      if (!first.valid()) first = s;
    }
    if (!first.valid()) return;
    Instruction& sync = list_.Add(Opcode::kSyncTied, first, tied, -1);
    sync.reads = held;
    sync.adds = held;
  }

  void EmitReport() {
    BufferIds reads;
    for (StageId s : run_.stages) {
      if (!stage(s).loss.valid()) continue;
      for (int m = 0; m < program_.microbatches; ++m) {
        reads.push_back(Get({BufferKind::kLocal, s, stage(s).loss, m, 0}));
      }
    }
    for (StageId s : run_.stages) {
      for (ParameterGroupId g : stage(s).groups.ids()) {
        const ParameterGroup& at = group({s, g});
        if (at.trained && !at.spilled) reads.push_back(FinalGradients({s, g}));
      }
    }
    Instruction& report = list_.Add(Opcode::kReport, run_.home(), {}, -1);
    report.reads = std::move(reads);
    report.writes = {Reported()};
  }
  BufferId Reported() { return Get({BufferKind::kReport, run_.home(), {}, -1, 0}); }

  void EmitUpdate(const GroupAt& at) {
    Instruction& update = Add(Opcode::kUpdate, at);
    update.reads = {FinalGradients(at), Reported()};
    BufferId weights = Get(Of(BufferKind::kWeights, at), true);
    update.adds = {weights, Optimizer(at)};
    Evict(at);
    const ParameterGroup& of = group(at);
    if (of.zero != 1 && of.zero != 2 && of.server < 0) return;
    Instruction& gather = Add(Opcode::kGatherWeights, at);
    gather.reads = {weights};
    gather.adds = {weights};
  }

  static constexpr size_t kNever = static_cast<size_t>(-1);
  const Program& program_;
  int ahead_;
  InstructionList& list_;
  DeviceProgram& run_;
  std::vector<GroupAt> updates_;  // in their order
};

}  // namespace

void EndStep(const Program& program, int ahead, InstructionList& list) {
  StepEnd(program, ahead, list).Run();
}

}  // namespace heddle
