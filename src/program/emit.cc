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
  Emitter(const Program& program, const std::vector<StageBuild>& builds, const Plan& plan,
          const Run& run)
      : program_(program),
        builds_(builds),
        prefetch_(plan.prefetch),
        fetches_ahead_(plan.offload != Offload::kAll || plan.prefetch > 0),
        segments_(program, plan, list_) {
    out_.devices = run.devices;
    out_.stages = run.stages;
    for (size_t t = 0; t < program.transfers.size(); ++t) {
      const StageTransfer& transfer = program.transfers[t];
      transfers_[{transfer.from_stage, transfer.from_local}].push_back(static_cast<int>(t));
    }
  }

  DeviceProgram Emit(const std::vector<Task>& tasks) {
    MakeRoom(tasks);
    for (int stage : out_.stages) EmitStart(stage);
    EmitTasks(tasks);
    for (size_t s = out_.stages.size(); s-- > 0;) EmitOnceBackward(out_.stages[s]);
    EndStep(program_, prefetch_, list_);
    FindLifetimes(out_);
    HandOver(program_, fetches_ahead_, out_);
    if (out_.visits.empty()) out_.visits.push_back({});
    return std::move(out_);
  }

 private:
  const StageProgram& stage(int s) const { return segments_.stage(s); }
  const Local& local(int s, int l) const { return segments_.local(s, l); }
  const Segment& segment(int s, int g) const { return segments_.segment(s, g); }

  // A segment's factors are on their way while its backward runs, and what is computed from them comes after the
  // backward of the next.
  struct WaitingFactors {
    int stage = 0, segment = 0, microbatch = 0;
  };

  void Emit(const WaitingFactors& at, bool computes) {
    segments_.EmitFactors(at.stage, at.segment, at.microbatch, computes);
  }

  void EmitWaiting() {
    if (waiting_) Emit(*waiting_, true);
    waiting_.reset();
  }

  bool HasLate(const Segment& at) const {
    return std::any_of(at.inputs.begin(), at.inputs.end(),
                       [](const SegmentInput& input) { return input.late; });
  }

  // ---- The phases of a step.

  void EmitStart(int s) {
    segments_.BeginPass({s, true}, {});
    for (size_t g = 0; g < stage(s).segments.size(); ++g) {
      if (segment(s, static_cast<int>(g)).phase == Phase::kOnce)
        segments_.EmitForward(s, static_cast<int>(g), {});
    }
    for (int64_t m = 0; m < program_.microbatches; ++m) {
      for (size_t g = 0; g < stage(s).segments.size(); ++g) {
        if (segment(s, static_cast<int>(g)).phase != Phase::kFirst) continue;
        segments_.EmitForward(s, static_cast<int>(g), {static_cast<int>(m), -1, false});
      }
    }
    // What does not depend on the samples is brought to its readers before the first of them.
    for (const Segment& at : stage(s).segments) {
      if (at.phase != Phase::kMain) continue;
      for (const SegmentInput& input : at.inputs) {
        const Local& from = local(s, input.local);
        if (from.once && from.source.kind != SourceKind::kParameter)
          segments_.Provide(s, input.local, {});
      }
    }
  }

  // More than the tasks will have, in most programs.
  void MakeRoom(const std::vector<Task>& tasks) {
    constexpr size_t kOfSegment = 3;  // it runs, it is recomputed, something is moved
    size_t most = 0;
    for (int s : out_.stages) most = std::max(most, stage(s).segments.size());
    out_.instructions.reserve(tasks.size() * kOfSegment * (most + 1));
  }

  void EmitTasks(const std::vector<Task>& tasks) {
    // What a task receives is asked for one task ahead.
    for (size_t t = 0; t < tasks.size(); ++t) {
      if (t == 0) EmitReceives(tasks[0]);
      if (t + 1 < tasks.size()) EmitReceives(tasks[t + 1]);
      segments_.BeginPass(PassOf(tasks[t]),
                          t + 1 < tasks.size() ? PassOf(tasks[t + 1]) : SegmentEmitter::Pass{});
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
      Instruction& recv = list_.Add(Opcode::kRecv, Stream::kCommunication, task.stage,
                                    local(task.stage, l).source.from, task.microbatch);
      recv.writes = {segments_.Arriving(task.stage, l, task.microbatch)};
    };
    for (const auto& [id, crossing] : Incoming(task)) {
      if (task.half == Half::kF) {
        receive(crossing.local);
      } else {
        for (const auto& [other, gradient] : crossing.gradients) receive(gradient);
      }
    }
  }

  static SegmentEmitter::Pass PassOf(const Task& task) {
    return {task.stage, task.half == Half::kF};
  }

  void EmitTask(const Task& task) {
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
    for (size_t g = 0; g < stage(task.stage).segments.size(); ++g) {
      const Segment& at = segment(task.stage, static_cast<int>(g));
      if (at.phase != Phase::kMain) continue;
      segments_.EmitForward(task.stage, static_cast<int>(g), {task.microbatch, at.unit, false});
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
    BufferId buffer = segments_.Provide(task.stage, l, {task.microbatch, -1, false});
    auto sent = transfers_.find({task.stage, l});
    if (sent == transfers_.end()) return;
    for (int t : sent->second) {
      list_.Add(Opcode::kSend, Stream::kCommunication, task.stage, t, task.microbatch).reads = {
          buffer};
    }
  }

  void EmitBackwardTask(const Task& task) {
    std::set<int> recomputed;
    for (size_t g = stage(task.stage).segments.size(); g-- > 0;) {
      const Segment& at = segment(task.stage, static_cast<int>(g));
      if (at.phase != Phase::kMain || !at.has_backward) continue;
      if (at.unit >= 0 && recomputed.insert(at.unit).second) EmitRecompute(task, at.unit);
      WaitingFactors factors{task.stage, static_cast<int>(g), task.microbatch};
      if (task.half == Half::kBW) Emit(factors, false);
      segments_.EmitBackward(task.stage, static_cast<int>(g), task.half, task.microbatch);
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
      segments_.EmitForward(task.stage, static_cast<int>(g), {task.microbatch, unit, true});
    }
  }

  void EmitWeightTask(const Task& task) {
    for (size_t g = stage(task.stage).segments.size(); g-- > 0;) {
      const Segment& at = segment(task.stage, static_cast<int>(g));
      if (at.phase != Phase::kMain || !at.has_backward) continue;
      WaitingFactors factors{task.stage, static_cast<int>(g), task.microbatch};
      Emit(factors, false);
      if (HasLate(at))
        segments_.EmitBackward(task.stage, static_cast<int>(g), Half::kW, task.microbatch);
      EmitWaiting();
      waiting_ = factors;
    }
    EmitWaiting();
  }

  void EmitOnceBackward(int s) {
    for (size_t g = stage(s).segments.size(); g-- > 0;) {
      const Segment& at = segment(s, static_cast<int>(g));
      if (at.phase == Phase::kOnce && at.has_backward)
        segments_.EmitBackward(s, static_cast<int>(g), Half::kBW, -1);
    }
    for (int gradient : stage(s).parameter_gradients) {
      BufferId from = segments_.Provide(s, gradient, {});
      int g = GroupOf(s, local(s, gradient).value);
      Instruction& add = list_.Add(Opcode::kAddGradient, Stream::kCompute, s, gradient, -1);
      add.reads = {from};
      add.adds = {segments_.GradientsOf(s, g, -1)};
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
  int prefetch_;
  bool fetches_ahead_;
  DeviceProgram out_;
  InstructionList list_{program_, out_};
  SegmentEmitter segments_;
  std::optional<WaitingFactors> waiting_;
  std::map<std::pair<int, int>, std::vector<int>> transfers_;  // by stage and Local that is sent
};

}  // namespace

DeviceProgram Emit(const Program& program, const std::vector<StageBuild>& builds, const Plan& plan,
                   const Run& run, const std::vector<Task>& tasks) {
  return Emitter(program, builds, plan, run).Emit(tasks);
}

}  // namespace heddle
