#include "program/emit.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "program/instruction_list.h"

namespace heddle {
namespace {

class Emitter {
 public:
  Emitter(const Program& program, const std::vector<StageBuild>& builds, const Plan& plan,
          const Run& run)
      : program_(program), builds_(builds), plan_(plan) {
    out_.devices = run.devices;
    out_.stages = run.stages;
  }

  DeviceProgram Emit(const std::vector<Task>& tasks) {
    for (int stage : out_.stages) EmitStart(stage);
    EmitTasks(tasks);
    for (size_t s = out_.stages.size(); s-- > 0;) EmitOnceBackward(out_.stages[s]);
    EndStep(program_, list_);
    FindLifetimes(out_);
    return std::move(out_);
  }

 private:
  const StageProgram& stage(int s) const { return program_.stages[static_cast<size_t>(s)]; }
  const Local& local(int s, int l) const { return stage(s).locals[static_cast<size_t>(l)]; }
  const Segment& segment(int s, int g) const { return stage(s).segments[static_cast<size_t>(g)]; }
  const ParameterGroup& group(int s, int g) const {
    return stage(s).groups[static_cast<size_t>(g)];
  }

  // ---- Buffers.

  bool Exists(const Buffer& b) const { return list_.Exists(b); }
  BufferId Get(const Buffer& b, bool persistent = false) { return list_.Get(b, persistent); }
  Instruction& Add(Opcode op, Stream stream, int s, int index, int microbatch) {
    return list_.Add(op, stream, s, index, microbatch);
  }

  // What is being emitted: recomputation of a unit, or not.
  struct Context {
    int microbatch = -1;
    int unit = -1;       // of the segment at work
    bool again = false;  // it is being recomputed
  };

  // Locals first made for a segment that is recomputed are made again with it; what is made outside is kept.
  int VersionOf(int s, int l, const Context& context) {
    auto [found, fresh] = owner_.try_emplace({s, l}, context.again ? -1 : context.unit);
    return context.again && found->second == context.unit ? 1 : 0;
  }

  Buffer LocalBuffer(int s, int l, const Context& context) {
    const Local& at = local(s, l);
    int version = at.once ? 0 : VersionOf(s, l, context);
    return {BufferKind::kLocal, s, l, at.once ? -1 : context.microbatch, version};
  }

  BufferId WeightsOf(int s, int g) {
    if (group(s, g).zero < 3) return Get({BufferKind::kWeights, s, g, -1, 0}, true);
    auto found = gathered_.find({s, g});
    HEDDLE_CHECK(found != gathered_.end(), "the weights of group {} are not gathered", g);
    return Get({BufferKind::kGathered, s, g, -1, found->second});
  }

  // The buffer of a Local, made now if nothing has made it yet.
  BufferId Provide(int s, int l, const Context& context) {
    const Local& at = local(s, l);
    if (at.source.kind == SourceKind::kParameter) return WeightsOf(s, at.source.from);
    if (at.source.kind == SourceKind::kConstant)
      return Get({BufferKind::kLocal, s, l, -1, 0}, true);
    if (!at.gradient && !owner_.count({s, l}) && at.source.kind == SourceKind::kLoad)
      owner_[{s, l}] = -1;
    Buffer buffer = LocalBuffer(s, l, context);
    if (Exists(buffer)) return Get(buffer);
    switch (at.source.kind) {
      case SourceKind::kLoad: {
        BufferId made = Get(buffer);
        Add(Opcode::kLoad, Stream::kCopy, s, l, context.microbatch).writes = {made};
        return made;
      }
      case SourceKind::kReshard: {
        BufferId from = Provide(s, at.source.from, context);
        BufferId made = Get(buffer);
        bool near = IsLocal(stage(s).steps[static_cast<size_t>(at.source.step)].kind);
        Instruction& step = Add(Opcode::kReshard, near ? Stream::kCompute : Stream::kCommunication,
                                s, l, buffer.microbatch);
        step.reads = {from};
        step.writes = {made};
        return made;
      }
      case SourceKind::kSum: {
        std::vector<BufferId> terms;
        for (int term : at.source.terms) terms.push_back(Provide(s, term, context));
        return AddSum(s, l, buffer, std::move(terms));
      }
      case SourceKind::kMicrobatchSum: {
        std::vector<BufferId> terms;
        for (int64_t m = 0; m < program_.microbatches; ++m) {
          terms.push_back(Provide(s, at.source.from, {static_cast<int>(m), -1, false}));
        }
        return AddSum(s, l, buffer, std::move(terms));
      }
      default:
        HEDDLE_CHECK(false, "local {} of stage {} (value {}, source {}) is not there", l, s,
                     at.value.value, static_cast<int>(at.source.kind));
        return {};
    }
  }

  BufferId AddSum(int s, int l, const Buffer& buffer, std::vector<BufferId> terms) {
    BufferId made = Get(buffer);
    Instruction& sum = Add(Opcode::kSum, Stream::kCompute, s, l, buffer.microbatch);
    sum.reads = std::move(terms);
    sum.writes = {made};
    return made;
  }

  // ---- Segments.

  Buffer SavedBuffer(int s, int g, int microbatch) const {
    return {BufferKind::kSaved, s, g, microbatch, 0};
  }

  void GatherFor(int s, int g) {
    // The groups in the order in which this pass needs them; the next ones are gathered ahead.
    for (const SegmentInput& input : segment(s, g).inputs) {
      const Source& source = local(s, input.local).source;
      if (source.kind != SourceKind::kParameter || group(s, source.from).zero < 3) continue;
      auto at = std::find(gather_order_.begin(), gather_order_.end(), source.from);
      for (int ahead = 0; ahead <= plan_.prefetch && at != gather_order_.end(); ++ahead, ++at) {
        if (gathered_.count({s, *at})) continue;
        gathered_[{s, *at}] = next_gather_;
        Instruction& gather = Add(Opcode::kGatherWeights, Stream::kCommunication, s, *at, -1);
        gather.reads = {Get({BufferKind::kWeights, s, *at, -1, 0}, true)};
        gather.writes = {Get({BufferKind::kGathered, s, *at, -1, next_gather_})};
        ++next_gather_;
      }
    }
  }

  // Begins a pass over the segments of a stage, forward or backward.
  void BeginPass(int s, bool forward) {
    gathered_.clear();
    gather_order_.clear();
    for (const Segment& at : stage(s).segments) {
      for (const SegmentInput& input : at.inputs) {
        const Source& source = local(s, input.local).source;
        if (source.kind != SourceKind::kParameter || group(s, source.from).zero < 3) continue;
        bool seen = std::find(gather_order_.begin(), gather_order_.end(), source.from) !=
                    gather_order_.end();
        if (!seen) gather_order_.push_back(source.from);
      }
    }
    if (!forward) std::reverse(gather_order_.begin(), gather_order_.end());
  }

  void EmitForward(int s, int g, const Context& context) {
    const Segment& at = segment(s, g);
    GatherFor(s, g);
    std::vector<BufferId> reads;
    for (const SegmentInput& input : at.inputs) reads.push_back(Provide(s, input.local, context));
    Instruction& run = Add(Opcode::kRun, Stream::kCompute, s, g, context.microbatch);
    run.recompute = context.again;
    run.reads = std::move(reads);
    for (const SegmentOutput& output : at.outputs) {
      run.writes.push_back(Get(LocalBuffer(s, output.local, context)));
    }
    bool keeps = at.has_backward && (at.unit < 0 || context.again);
    if (keeps) run.writes.push_back(Get(SavedBuffer(s, g, context.microbatch)));
  }

  void EmitBackward(int s, int g, Half half, int microbatch) {
    const Segment& at = segment(s, g);
    GatherFor(s, g);
    Context context{microbatch, -1, false};
    std::vector<BufferId> reads;
    for (const SegmentOutput& output : at.outputs) {
      bool comes =
          output.gradient >= 0 && local(s, output.gradient).source.kind != SourceKind::kSeed;
      if (half == Half::kW) break;
      reads.push_back(comes ? Provide(s, output.gradient, context) : BufferId{});
    }
    GatherAgain(s, g, microbatch);
    if (half != Half::kW) GatherAgain(s, NextBackward(s, g), microbatch);  // while this one runs
    reads.push_back(Get(SavedBuffer(s, g, microbatch)));
    std::vector<BufferId> adds;
    std::vector<BufferId> writes;
    for (const SegmentInput& input : at.inputs) {
      const Local& from = local(s, input.local);
      if (from.source.kind == SourceKind::kParameter && group(s, from.source.from).zero == 3) {
        reads.push_back(WeightsOf(s, from.source.from));
      }
      if (input.again) reads.push_back(Get({BufferKind::kLocal, s, input.local, microbatch, 1}));
      bool mine = half == Half::kBW || (half == Half::kW) == input.late;
      if (!mine) continue;
      if (input.trained) AddUnique(adds, GradientsOf(s, from.source.from, microbatch));
      if (input.gradient < 0) continue;
      BufferId gradient = Get(LocalBuffer(s, input.gradient, context));
      if (local(s, input.gradient).once) {
        AddUnique(adds, gradient);
      } else {
        writes.push_back(gradient);
      }
    }
    Instruction& run = Add(Opcode::kRun, Stream::kCompute, s, g, microbatch);
    run.half = half;
    run.reads = std::move(reads);
    run.writes = std::move(writes);
    run.adds = std::move(adds);
  }

  // What a segment's backward needs and forward did not keep.
  void GatherAgain(int s, int g, int microbatch) {
    if (g < 0) return;
    for (const SegmentInput& input : segment(s, g).inputs) {
      Buffer buffer{BufferKind::kLocal, s, input.local, microbatch, 1};
      if (!input.again || Exists(buffer)) continue;
      BufferId from = Provide(s, local(s, input.local).source.from, {microbatch, -1, false});
      Instruction& step = Add(Opcode::kReshard, Stream::kCommunication, s, input.local, microbatch);
      step.reads = {from};
      step.writes = {Get(buffer)};
    }
  }
  int NextBackward(int s, int g) const {
    while (--g >= 0) {
      const Segment& at = segment(s, g);
      if (at.phase == Phase::kMain && at.has_backward) return g;
    }
    return -1;
  }

  static void AddUnique(std::vector<BufferId>& list, BufferId id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  }

  // ZeRO 2 and 3 reduce what each micro-batch adds.
  BufferId GradientsOf(int s, int g, int microbatch) {
    bool each = group(s, g).zero >= 2;
    return Get({BufferKind::kWeightGradients, s, g, each ? microbatch : -1, 0});
  }

  // ---- Gradients from factors.

  // A segment's factors are on their way while its backward runs, and what is computed from them comes after the
  // backward of the next.
  struct WaitingFactors {
    int stage = 0, segment = 0, microbatch = 0;
  };

  // Brings the factors of a segment's gradients, and computes these, too.
  void EmitFactors(const WaitingFactors& at, bool computes) {
    int unit = segment(at.stage, at.segment).unit;
    const std::vector<FactorGradient>& all = stage(at.stage).factor_gradients;
    for (size_t f = 0; f < all.size(); ++f) {
      if (all[f].segment != at.segment) continue;
      std::vector<BufferId> factors;
      for (int l : all[f].factors)
        factors.push_back(Provide(at.stage, l, {at.microbatch, unit, unit >= 0}));
      if (!computes) continue;
      int g = local(at.stage, all[f].parameter).source.from;
      BufferId gradients = GradientsOf(at.stage, g, at.microbatch);
      Instruction& compute = Add(Opcode::kFactorGradient, Stream::kCompute, at.stage,
                                 static_cast<int>(f), at.microbatch);
      compute.reads = std::move(factors);
      compute.adds = {gradients};
    }
  }

  void EmitWaiting() {
    if (waiting_) EmitFactors(*waiting_, true);
    waiting_.reset();
  }

  bool HasLate(const Segment& at) const {
    return std::any_of(at.inputs.begin(), at.inputs.end(),
                       [](const SegmentInput& input) { return input.late; });
  }

  // ---- The phases of a step.

  void EmitStart(int s) {
    BeginPass(s, true);
    for (size_t g = 0; g < stage(s).segments.size(); ++g) {
      if (segment(s, static_cast<int>(g)).phase == Phase::kOnce)
        EmitForward(s, static_cast<int>(g), {});
    }
    for (int64_t m = 0; m < program_.microbatches; ++m) {
      for (size_t g = 0; g < stage(s).segments.size(); ++g) {
        if (segment(s, static_cast<int>(g)).phase != Phase::kFirst) continue;
        EmitForward(s, static_cast<int>(g), {static_cast<int>(m), -1, false});
      }
    }
    // What does not depend on the samples is brought to its readers before the first of them.
    for (const Segment& at : stage(s).segments) {
      if (at.phase != Phase::kMain) continue;
      for (const SegmentInput& input : at.inputs) {
        const Local& from = local(s, input.local);
        if (from.once && from.source.kind != SourceKind::kParameter) Provide(s, input.local, {});
      }
    }
  }

  void EmitTasks(const std::vector<Task>& tasks) {
    // What a task receives is asked for one task ahead.
    for (size_t t = 0; t < tasks.size(); ++t) {
      if (t == 0) EmitReceives(tasks[0]);
      if (t + 1 < tasks.size()) EmitReceives(tasks[t + 1]);
      EmitTask(tasks[t]);
    }
  }

  const std::map<ValueId, StageBuild::Crossing>& Incoming(const Task& task) const {
    const StageBuild& build = builds_[static_cast<size_t>(task.stage)];
    return task.half == Half::kF ? build.received : build.sent;
  }

  void EmitReceives(const Task& task) {
    if (task.half == Half::kW) return;
    auto receive = [&](int l) {
      Context context{task.microbatch, -1, false};
      Instruction& recv = Add(Opcode::kRecv, Stream::kCommunication, task.stage,
                              local(task.stage, l).source.from, task.microbatch);
      recv.writes = {Get(LocalBuffer(task.stage, l, context))};
    };
    for (const auto& [id, crossing] : Incoming(task)) {
      if (task.half == Half::kF) {
        owner_[{task.stage, crossing.local}] = -1;
        receive(crossing.local);
      } else {
        for (const auto& [other, gradient] : crossing.gradients) receive(gradient);
      }
    }
  }

  void EmitTask(const Task& task) {
    BeginPass(task.stage, task.half == Half::kF);
    switch (task.half) {
      case Half::kF:
        return EmitForwardTask(task);
      case Half::kW:
        return EmitWeightTask(task);
      default:
        return EmitBackwardTask(task);
    }
  }

  void EmitForwardTask(const Task& task) {
    std::set<ValueId> sent;
    for (size_t g = 0; g < stage(task.stage).segments.size(); ++g) {
      const Segment& at = segment(task.stage, static_cast<int>(g));
      if (at.phase != Phase::kMain) continue;
      Context context{task.microbatch, at.unit, false};
      EmitForward(task.stage, static_cast<int>(g), context);
      for (const SegmentOutput& output : at.outputs)
        EmitSends(task, local(task.stage, output.local).value);
    }
  }

  // A value that other stages read goes to them as soon as it is there.
  void EmitSends(const Task& task, ValueId id) {
    const auto& sent = builds_[static_cast<size_t>(task.stage)].sent;
    auto found = sent.find(id);
    if (found == sent.end()) return;
    EmitSend(task, found->second.local);
  }

  void EmitSend(const Task& task, int l) {
    BufferId buffer = Provide(task.stage, l, {task.microbatch, -1, false});
    for (size_t t = 0; t < program_.transfers.size(); ++t) {
      const StageTransfer& transfer = program_.transfers[t];
      if (transfer.from_stage != task.stage || transfer.from_local != l) continue;
      Add(Opcode::kSend, Stream::kCommunication, task.stage, static_cast<int>(t), task.microbatch)
          .reads = {buffer};
    }
  }

  void EmitBackwardTask(const Task& task) {
    std::set<int> recomputed;
    for (size_t g = stage(task.stage).segments.size(); g-- > 0;) {
      const Segment& at = segment(task.stage, static_cast<int>(g));
      if (at.phase != Phase::kMain || !at.has_backward) continue;
      if (at.unit >= 0 && recomputed.insert(at.unit).second) EmitRecompute(task, at.unit);
      WaitingFactors factors{task.stage, static_cast<int>(g), task.microbatch};
      if (task.half == Half::kBW) EmitFactors(factors, false);
      EmitBackward(task.stage, static_cast<int>(g), task.half, task.microbatch);
      EmitWaiting();
      if (task.half == Half::kBW) waiting_ = factors;
    }
    EmitWaiting();
    for (const auto& [id, crossing] : builds_[static_cast<size_t>(task.stage)].received) {
      for (const auto& [other, gradient] : crossing.gradients) EmitSend(task, gradient);
    }
  }

  void EmitRecompute(const Task& task, int unit) {
    for (size_t g = 0; g < stage(task.stage).segments.size(); ++g) {
      const Segment& at = segment(task.stage, static_cast<int>(g));
      if (at.phase != Phase::kMain || at.unit != unit) continue;
      EmitForward(task.stage, static_cast<int>(g), {task.microbatch, unit, true});
    }
  }

  void EmitWeightTask(const Task& task) {
    for (size_t g = stage(task.stage).segments.size(); g-- > 0;) {
      const Segment& at = segment(task.stage, static_cast<int>(g));
      if (at.phase != Phase::kMain || !at.has_backward) continue;
      WaitingFactors factors{task.stage, static_cast<int>(g), task.microbatch};
      EmitFactors(factors, false);
      if (HasLate(at)) EmitBackward(task.stage, static_cast<int>(g), Half::kW, task.microbatch);
      EmitWaiting();
      waiting_ = factors;
    }
    EmitWaiting();
  }

  void EmitOnceBackward(int s) {
    for (size_t g = stage(s).segments.size(); g-- > 0;) {
      const Segment& at = segment(s, static_cast<int>(g));
      if (at.phase == Phase::kOnce && at.has_backward)
        EmitBackward(s, static_cast<int>(g), Half::kBW, -1);
    }
    for (int gradient : stage(s).parameter_gradients) {
      BufferId from = Provide(s, gradient, {});
      int g = GroupOf(s, local(s, gradient).value);
      Instruction& add = Add(Opcode::kAddGradient, Stream::kCompute, s, gradient, -1);
      add.reads = {from};
      add.adds = {GradientsOf(s, g, -1)};
    }
  }

  int GroupOf(int s, ValueId parameter) const {
    for (const Local& at : stage(s).locals) {
      if (at.source.kind == SourceKind::kParameter && at.value == parameter) return at.source.from;
    }
    HEDDLE_CHECK(false, "parameter {} is in no group", parameter.value);
    return -1;
  }

  const Program& program_;
  const std::vector<StageBuild>& builds_;
  const Plan& plan_;
  DeviceProgram out_;
  InstructionList list_{out_};
  std::map<std::pair<int, int>, int>
      owner_;  // by stage and Local: the unit that recomputes it, or -1
  std::map<std::pair<int, int>, int> gathered_;  // by stage and group: the gathering at hand
  std::vector<int> gather_order_;
  int next_gather_ = 0;
  std::optional<WaitingFactors> waiting_;
};

}  // namespace

DeviceProgram Emit(const Program& program, const std::vector<StageBuild>& builds, const Plan& plan,
                   const Run& run, const std::vector<Task>& tasks) {
  return Emitter(program, builds, plan, run).Emit(tasks);
}

}  // namespace heddle
