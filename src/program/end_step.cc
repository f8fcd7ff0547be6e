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
  const StageProgram& stage(int s) const { return program_.stages[static_cast<size_t>(s)]; }
  const ParameterGroup& group(int s, int g) const {
    return stage(s).groups[static_cast<size_t>(g)];
  }
  bool Exists(const Buffer& b) { return list_.Exists(b); }
  BufferId Get(const Buffer& b, bool persistent = false) { return list_.Get(b, persistent); }
  Instruction& Add(Opcode op, Stream stream, int s, int index, int microbatch) {
    return list_.Add(op, stream, s, index, microbatch);
  }

  // Gradients are reduced once the last of them has been added, and what the next segment, or the stage before,
  // waits for is on its way.
  void InsertReductions() {
    std::vector<size_t> last(run_.buffers.size(), kNever);  // by buffer: the last that adds to it
    for (size_t i = run_.instructions.size(); i-- > 0;) {
      for (BufferId id : run_.instructions[i].adds) {
        bool gradients = run_.buffers[id.index()].kind == BufferKind::kWeightGradients;
        if (gradients && last[id.index()] == kNever) last[id.index()] = i;
      }
    }
    std::multimap<size_t, size_t> after, before;  // by instruction: buffers
    for (size_t buffer = 0; buffer < last.size(); ++buffer) {
      size_t i = last[buffer], at = i;
      if (i == kNever) continue;
      // Not past the fetches of another visit, which wait for the memory of what is updated here.
      while (at + 1 < run_.instructions.size() && run_.instructions[at + 1].op != Opcode::kRun &&
             run_.instructions[at + 1].visit == run_.instructions[i].visit)
        ++at;
      after.insert({at, buffer});
      if (IsSpilled(buffer)) before.insert({StartOf(run_.instructions[i].visit - ahead_), buffer});
    }
    if (!after.empty()) Insert(before, after);
  }

  // Fetches of the state of some buffers before instructions, reductions of buffers after others. What comes before all of
  // these stays where it is.
  void Insert(const std::multimap<size_t, size_t>& before,
              const std::multimap<size_t, size_t>& after) {
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
        Fetch(run_.buffers[fetched->second].stage, run_.buffers[fetched->second].index);
      run_.instructions.push_back(std::move(instructions[i]));
      for (; reduced != after.end() && reduced->first == first + i; ++reduced) {
        AddReduction(BufferId::FromIndex(reduced->second));
        if (IsSpilled(reduced->second)) EmitSpilledUpdate(BufferId::FromIndex(reduced->second));
      }
    }
  }

  bool IsSpilled(size_t buffer) const {
    return group(run_.buffers[buffer].stage, run_.buffers[buffer].index).spilled;
  }

  // The first instruction of a visit, or of the first of all.
  size_t StartOf(int visit) const {
    for (size_t i = 0; i < run_.instructions.size(); ++i) {
      if (run_.instructions[i].visit >= visit) return i;
    }
    return 0;
  }

  // With the weights that backward had at hand; they and the state go back. Of a buffer of gradients.
  void EmitSpilledUpdate(BufferId gradients) {
    int s = run_.buffers[gradients.index()].stage, g = run_.buffers[gradients.index()].index;
    BufferId weights;
    for (const Instruction& at : run_.instructions) {
      for (BufferId id : at.reads) {
        if (!id.valid()) continue;
        const Buffer& buffer = run_.buffers[id.index()];
        if (buffer.kind == BufferKind::kGathered && buffer.stage == s && buffer.index == g)
          weights = id;
      }
    }
    Instruction& update = Add(Opcode::kUpdate, Stream::kCompute, s, g, -1);
    update.reads = {FinalGradients(s, g), weights};
    update.adds = {weights, Optimizer(s, g)};
    Evict(s, g);
    Instruction& evict = Add(Opcode::kEvict, Stream::kCopyOut, s, g, -1);
    evict.reads = {weights};
    evict.adds = {Get({BufferKind::kHostWeights, s, g, -1, 0}, true)};
  }

  void AddReduction(BufferId gradients) {
    const Buffer from = run_.buffers[gradients.index()];
    const ParameterGroup& g = group(from.stage, from.index);
    if (GroupSize(stage(from.stage).mesh, g.reduce_axes) == 1) return;
    BufferId reduced = Get({BufferKind::kReduced, from.stage, from.index, -1, 0});
    Instruction& reduce = Add(Opcode::kReduceGradients, Stream::kCommunication, from.stage,
                              from.index, from.microbatch);
    reduce.reads = {gradients};
    (g.zero >= 2 ? reduce.adds : reduce.writes) = {reduced};
  }

  // What the update of a group reads.
  BufferId FinalGradients(int s, int g) {
    Buffer reduced{BufferKind::kReduced, s, g, -1, 1};
    if (!Exists(reduced)) reduced.version = 0;
    return Exists(reduced) ? Get(reduced) : Get({BufferKind::kWeightGradients, s, g, -1, 0});
  }

  void EmitEnd() {
    FindUpdates();
    FetchFor(0);
    for (int s : run_.stages) {
      for (size_t g = 0; g < stage(s).groups.size(); ++g) EmitShards(s, static_cast<int>(g));
    }
    for (size_t t = 0; t < program_.tied.size(); ++t) EmitTied(static_cast<int>(t));
    EmitReport();
    // What is on the host comes while the group before is updated, and goes while the next is.
    for (size_t u = 0; u < updates_.size(); ++u) {
      FetchFor(u + 1);
      EmitUpdate(updates_[u].first, updates_[u].second);
    }
  }

  void FindUpdates() {
    for (int s : run_.stages) {
      for (size_t g = 0; g < stage(s).groups.size(); ++g) {
        if (stage(s).groups[g].trained && !stage(s).groups[g].spilled)
          updates_.push_back({s, static_cast<int>(g)});
      }
    }
  }

  BufferId Optimizer(int s, int g) {
    return Get({BufferKind::kOptimizer, s, g, -1, 0}, !group(s, g).offloaded);
  }
  BufferId OnHost(int s, int g) { return Get({BufferKind::kHostOptimizer, s, g, -1, 0}, true); }

  void FetchFor(size_t update) {
    if (update < updates_.size()) Fetch(updates_[update].first, updates_[update].second);
  }

  void Fetch(int s, int g) {
    if (!group(s, g).offloaded) return;
    Instruction& fetch = Add(Opcode::kFetch, Stream::kCopy, s, g, -1);
    fetch.reads = {OnHost(s, g)};
    fetch.adds = {Optimizer(s, g)};  // the update adds to it
  }

  void Evict(int s, int g) {
    if (!group(s, g).offloaded) return;
    Instruction& evict = Add(Opcode::kEvict, Stream::kCopyOut, s, g, -1);
    evict.reads = {Optimizer(s, g)};
    evict.adds = {OnHost(s, g)};
  }

  void EmitShards(int s, int g) {
    const ParameterGroup& at = group(s, g);
    if (at.zero == 0 || GroupSize(stage(s).mesh, at.reduce_axes & ~at.zero_axes) == 1) return;
    Instruction& reduce = Add(Opcode::kReduceShards, Stream::kCommunication, s, g, -1);
    reduce.reads = {Get({BufferKind::kReduced, s, g, -1, 0})};
    reduce.writes = {Get({BufferKind::kReduced, s, g, -1, 1})};
  }

  void EmitTied(int tied) {
    BufferIds held;
    int first = -1;
    for (const auto& [s, g] : program_.tied[static_cast<size_t>(tied)].holders) {
      if (std::find(run_.stages.begin(), run_.stages.end(), s) == run_.stages.end()) continue;
      held.push_back(FinalGradients(s, g));
      if (first < 0) first = s;
    }
    if (first < 0) return;
    Instruction& sync = Add(Opcode::kSyncTied, Stream::kCommunication, first, tied, -1);
    sync.reads = held;
    sync.adds = held;
  }

  void EmitReport() {
    BufferIds reads;
    for (int s : run_.stages) {
      if (stage(s).loss < 0) continue;
      for (int64_t m = 0; m < program_.microbatches; ++m) {
        reads.push_back(Get({BufferKind::kLocal, s, stage(s).loss, static_cast<int>(m), 0}));
      }
    }
    for (int s : run_.stages) {
      for (size_t g = 0; g < stage(s).groups.size(); ++g) {
        const ParameterGroup& at = stage(s).groups[g];
        if (at.trained && !at.spilled) reads.push_back(FinalGradients(s, static_cast<int>(g)));
      }
    }
    Instruction& report = Add(Opcode::kReport, Stream::kCommunication, run_.home(), 0, -1);
    report.reads = std::move(reads);
    report.writes = {Get({BufferKind::kReport, run_.home(), 0, -1, 0})};
  }

  void EmitUpdate(int s, int g) {
    Instruction& update = Add(Opcode::kUpdate, Stream::kCompute, s, g, -1);
    update.reads = {FinalGradients(s, g), Get({BufferKind::kReport, run_.home(), 0, -1, 0})};
    BufferId weights = Get({BufferKind::kWeights, s, g, -1, 0}, true);
    update.adds = {weights, Optimizer(s, g)};
    Evict(s, g);
    const ParameterGroup& at = group(s, g);
    if (at.zero != 1 && at.zero != 2 && at.server < 0) return;
    Instruction& gather = Add(Opcode::kGatherWeights, Stream::kCommunication, s, g, -1);
    gather.reads = {weights};
    gather.adds = {weights};
  }

  static constexpr size_t kNever = static_cast<size_t>(-1);
  const Program& program_;
  int ahead_;
  InstructionList& list_;
  DeviceProgram& run_;
  std::vector<std::pair<int, int>> updates_;  // stage and group, in their order
};

}  // namespace

void EndStep(const Program& program, int ahead, InstructionList& list) {
  StepEnd(program, ahead, list).Run();
}

}  // namespace heddle
