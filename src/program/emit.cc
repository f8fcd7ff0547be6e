#include "program/emit.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "program/segment_emitter.h"

namespace heddle {
namespace {

class Emitter {
 public:
  Emitter(const Program& program, const StageBuilds& builds, const Plan& plan, const Run& run)
      : program_(program),
        builds_(builds),
        prefetch_(plan.prefetch),
        fetches_ahead_(plan.offload != Offload::kAll || plan.prefetch > 0),
        segments_(program, plan, list_) {
    out_.devices = run.devices;
    out_.stages = run.stages;
    for (TransferId id : program.transfers.ids()) {
      const StageTransfer& transfer = program.transfers[id];
      transfers_[{transfer.from_stage, transfer.from_local}].push_back(id);
    }
  }

  DeviceProgram Emit(const std::vector<Task>& tasks) {
    MakeRoom(tasks);
    for (StageId stage : out_.stages) EmitStart(stage);
    EmitTasks(tasks);
    for (size_t s = out_.stages.size(); s-- > 0;) EmitOnceBackward(out_.stages[s]);
    EndStep(program_, prefetch_, list_);
    FindLifetimes(out_);
    HandOver(program_, fetches_ahead_, out_);
    if (out_.visits.empty()) out_.visits.push_back({});
    return std::move(out_);
  }

 private:
  const StageProgram& stage(StageId s) const { return segments_.stage(s); }
  const Local& local(StageId s, LocalId l) const { return segments_.local(s, l); }
  const Segment& segment(StageId s, SegmentId g) const { return segments_.segment(s, g); }

  using Pass = SegmentEmitter::Pass;
  using OpenPass = SegmentEmitter::OpenPass;

  // A segment's factors are on their way while its backward runs, and what is computed from them comes after the
  // backward of the next.
  struct WaitingFactors {
    SegmentId segment;
    int microbatch = 0;
  };

  void Emit(const OpenPass& pass, const WaitingFactors& at, bool computes) {
    segments_.EmitFactors(pass, at.segment, at.microbatch, computes);
  }

  void EmitWaiting(const OpenPass& pass) {
    if (waiting_) Emit(pass, *waiting_, true);
    waiting_.reset();
  }

  bool HasLate(const Segment& at) const {
    return std::any_of(at.inputs.begin(), at.inputs.end(),
                       [](const SegmentInput& input) { return input.late; });
  }

  // ---- The phases of a step.

  void EmitStart(StageId s) {
    OpenPass pass = segments_.BeginPass({s, true}, {});
    for (SegmentId g : stage(s).segments.ids()) {
      if (segment(s, g).phase == Phase::kOnce) segments_.EmitForward(pass, g, {});
    }
    for (int m = 0; m < program_.microbatches; ++m) {
      for (SegmentId g : stage(s).segments.ids()) {
        if (segment(s, g).phase == Phase::kFirst) segments_.EmitForward(pass, g, {m, {}, false});
      }
    }
    // Values that do not depend on the samples are brought to their readers before the first micro-batch.
    for (const Segment& at : stage(s).segments) {
      if (at.phase != Phase::kMain) continue;
      for (const SegmentInput& input : at.inputs) {
        const Local& from = local(s, input.local);
        if (from.once && !from.Is<FromParameter>()) segments_.Provide(s, input.local, {});
      }
    }
  }

  // Reserves more than most programs need.
  void MakeRoom(const std::vector<Task>& tasks) {
    constexpr size_t kOfSegment = 3;  // it runs, it is recomputed, something is moved
    size_t most = 0;
    for (StageId s : out_.stages) most = std::max(most, stage(s).segments.size());
    out_.instructions.reserve(tasks.size() * kOfSegment * (most + 1));
  }

  void EmitTasks(const std::vector<Task>& tasks) {
    // Receives are issued one task ahead.
    for (size_t t = 0; t < tasks.size(); ++t) {
      if (t == 0) EmitReceives(tasks[0]);
      if (t + 1 < tasks.size()) EmitReceives(tasks[t + 1]);
      bool last = t + 1 == tasks.size();
      OpenPass pass = segments_.BeginPass(PassOf(tasks[t]), last ? Pass{} : PassOf(tasks[t + 1]));
      EmitTask(pass, tasks[t]);
    }
  }

  const std::map<ValueId, StageBuild::Crossing>& Incoming(const Task& task) const {
    const StageBuild& build = builds_[StageOf(task)];
    return task.half == Half::kF ? build.received : build.sent;
  }

  void EmitReceives(const Task& task) {
    if (task.half == Half::kW) return;
    StageId s = StageOf(task);
    auto receive = [&](LocalId l) {
      Instruction& recv =
          list_.Add(Opcode::kRecv, s, local(s, l).As<FromTransfer>().transfer, task.microbatch);
      recv.writes = {segments_.Arriving(s, l, task.microbatch)};
    };
    for (const auto& [id, crossing] : Incoming(task)) {
      if (task.half == Half::kF) {
        receive(crossing.local);
      } else {
        for (const auto& [other, gradient] : crossing.gradients) receive(gradient);
      }
    }
  }

  static StageId StageOf(const Task& task) { return StageId{task.stage}; }
  static Pass PassOf(const Task& task) { return {StageOf(task), task.half == Half::kF}; }

  void EmitTask(const OpenPass& pass, const Task& task) {
    switch (task.half) {
      case Half::kF:
        return EmitForwardTask(pass, task);
      case Half::kW:
        return EmitWeightTask(pass, task);
      default:
        return EmitBackwardTask(pass, task);
    }
  }

  void EmitForwardTask(const OpenPass& pass, const Task& task) {
    StageId s = StageOf(task);
    for (SegmentId g : stage(s).segments.ids()) {
      const Segment& at = segment(s, g);
      if (at.phase != Phase::kMain) continue;
      segments_.EmitForward(pass, g, {task.microbatch, at.unit, false});
      for (const SegmentOutput& output : at.outputs) EmitSends(task, local(s, output.local).value);
    }
  }

  // Sends a value to the other stages that read it as soon as it is computed.
  void EmitSends(const Task& task, ValueId id) {
    const auto& sent = builds_[StageOf(task)].sent;
    auto found = sent.find(id);
    if (found == sent.end()) return;
    EmitSend(task, found->second.local);
  }

  void EmitSend(const Task& task, LocalId l) {
    StageId s = StageOf(task);
    BufferId buffer = segments_.Provide(s, l, {task.microbatch, {}, false});
    auto sent = transfers_.find({s, l});
    if (sent == transfers_.end()) return;
    for (TransferId t : sent->second) {
      list_.Add(Opcode::kSend, s, t, task.microbatch).reads = {buffer};
    }
  }

  void EmitBackwardTask(const OpenPass& pass, const Task& task) {
    StageId s = StageOf(task);
    std::set<UnitId> recomputed;
    for (SegmentId g : stage(s).segments.ids_downwards()) {
      const Segment& at = segment(s, g);
      if (at.phase != Phase::kMain || !at.has_backward) continue;
      if (at.unit.valid() && recomputed.insert(at.unit).second) EmitRecompute(pass, task, at.unit);
      WaitingFactors factors{g, task.microbatch};
      if (task.half == Half::kBW) Emit(pass, factors, false);
      segments_.EmitBackward(pass, g, task.half, task.microbatch);
      EmitWaiting(pass);
      if (task.half == Half::kBW) waiting_ = factors;
    }
    EmitWaiting(pass);
    for (const auto& [id, crossing] : builds_[s].received) {
      for (const auto& [other, gradient] : crossing.gradients) EmitSend(task, gradient);
    }
  }

  void EmitRecompute(const OpenPass& pass, const Task& task, UnitId unit) {
    StageId s = StageOf(task);
    for (SegmentId g : stage(s).segments.ids()) {
      const Segment& at = segment(s, g);
      if (at.phase != Phase::kMain || at.unit != unit) continue;
      segments_.EmitForward(pass, g, {task.microbatch, unit, true});
    }
  }

  void EmitWeightTask(const OpenPass& pass, const Task& task) {
    StageId s = StageOf(task);
    for (SegmentId g : stage(s).segments.ids_downwards()) {
      const Segment& at = segment(s, g);
      if (at.phase != Phase::kMain || !at.has_backward) continue;
      WaitingFactors factors{g, task.microbatch};
      Emit(pass, factors, false);
      if (HasLate(at)) segments_.EmitBackward(pass, g, Half::kW, task.microbatch);
      EmitWaiting(pass);
      waiting_ = factors;
    }
    EmitWaiting(pass);
  }

  void EmitOnceBackward(StageId s) {
    OpenPass pass = segments_.BeginPass({s, false}, {});
    for (SegmentId g : stage(s).segments.ids_downwards()) {
      const Segment& at = segment(s, g);
      if (at.phase == Phase::kOnce && at.has_backward)
        segments_.EmitBackward(pass, g, Half::kBW, -1);
    }
    for (LocalId gradient : stage(s).parameter_gradients) {
      BufferId from = segments_.Provide(s, gradient, {});
      ParameterGroupId g = GroupOf(s, local(s, gradient).value);
      Instruction& add = list_.Add(Opcode::kAddGradient, s, gradient, -1);
      add.reads = {from};
      add.adds = {segments_.GradientsOf(s, g, -1)};
    }
  }

  ParameterGroupId GroupOf(StageId s, ValueId parameter) const {
    for (const Local& at : stage(s).locals) {
      if (at.Is<FromParameter>() && at.value == parameter) return at.As<FromParameter>().group;
    }
    HEDDLE_CHECK(false, "parameter {} is in no group", parameter.value);
    return {};
  }

  const Program& program_;
  const StageBuilds& builds_;
  int prefetch_;
  bool fetches_ahead_;
  DeviceProgram out_;
  InstructionList list_{program_, out_};
  SegmentEmitter segments_;
  std::optional<WaitingFactors> waiting_;
  // By stage and Local to send.
  std::map<std::pair<StageId, LocalId>, std::vector<TransferId>> transfers_;
};

}  // namespace

DeviceProgram Emit(const Program& program, const StageBuilds& builds, const Plan& plan,
                   const Run& run, const std::vector<Task>& tasks) {
  return Emitter(program, builds, plan, run).Emit(tasks);
}

}  // namespace heddle
