#include "search/judge/short_step.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ops/rebatch.h"
#include "plan/precision.h"
#include "program/lower.h"
#include "schedule/schedule.h"

namespace heddle {
namespace {

// Nodes times micro-batches that take some 10 ms to simulate.
constexpr double kQuickSteps = 20'000;
constexpr int64_t kRounds = 3;  // rounds of micro-batches that are simulated of a long step
constexpr int64_t kFewest = 4, kFewestOfSplitBackward = 12;  // micro-batches

int64_t PipelineDevices(const Plan& plan) {
  return static_cast<int64_t>(plan.stages.size()) / plan.chunks;
}

// When the forwards of a device's stages end, in the order in which they run.
std::vector<double> ForwardEnds(const Program& program, const Simulation& at, size_t device_class) {
  const DeviceClass& of = at.prepared.classes.devices[device_class];
  const std::vector<Instruction>& instructions =
      program.runs[static_cast<size_t>(of.run)].instructions;
  const std::vector<TaskTimes>& times = at.timeline.times[device_class];
  std::vector<double> ends;
  StageId stage;
  int64_t microbatch = -1;
  for (size_t t = 0; t < instructions.size(); ++t) {
    const Instruction& now = instructions[t];
    if (now.op != Opcode::kRun || now.recompute || now.half != Half::kF) continue;
    if (now.stage != stage || now.microbatch != microbatch) ends.push_back(0);
    stage = now.stage;
    microbatch = now.microbatch;
    ends.back() = times[t].end;
  }
  return ends;
}

// Seconds between the last forward and the one a round earlier.
double LastRound(const std::vector<double>& ends, int64_t round) {
  auto count = static_cast<int64_t>(ends.size());
  if (count <= round) return 0;
  return ends[static_cast<size_t>(count - 1)] - ends[static_cast<size_t>(count - 1 - round)];
}

// Seconds per micro-batch once the pipeline is full.
double PeriodOf(const Program& program, const Plan& plan, const Simulation& at) {
  int64_t devices = PipelineDevices(plan);
  double round = 0;
  for (size_t c = 0; c < at.prepared.classes.devices.size(); ++c) {
    round = std::max(round, LastRound(ForwardEnds(program, at, c), devices * plan.chunks));
  }
  return round / static_cast<double>(devices);
}

// The program of the plan with fewer micro-batches; nothing where the batch of the model cannot
// change.
std::optional<Program> LowerFew(RebatchedModels& models, const Plan& plan, int64_t microbatches) {
  Plan shorter = plan;
  shorter.microbatches = microbatches;
  shorter.batch = plan.batch / plan.microbatches * microbatches;
  std::shared_ptr<const Model> model = models.Of(shorter.batch, plan.precision.compute);
  if (model == nullptr) return std::nullopt;
  try {
    return LowerConverted(*model, shorter);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

bool HoldsAsMany(const Plan& plan, int64_t few) {
  constexpr int64_t kMostTasks = 4'000;  // some milliseconds to order and compare
  const ScheduleDef& schedule = *FindSchedule(plan.schedule);
  auto stages = static_cast<int64_t>(plan.stages.size());
  if (!schedule.splits_backward || plan.microbatches > kMostTasks / stages) return true;
  auto most = [&](int64_t microbatches) {
    PipelineShape shape;
    shape.devices = static_cast<int>(stages);
    shape.microbatches = static_cast<int>(microbatches);
    for (const Stage& stage : plan.stages) {
      shape.times.push_back({stage.times.forward, stage.times.backward, stage.times.weight});
    }
    // Per device, what it holds at each moment: micro-batches before their B, and micro-batches
    // between B and W.
    std::vector<std::set<std::pair<int, int>>> held;
    for (const std::vector<Task>& tasks : MakeTimetable(schedule, shape)) {
      std::set<std::pair<int, int>>& of = held.emplace_back();
      std::pair<int, int> now;
      for (const Task& task : tasks) {
        now.first += task.half == Half::kF ? 1 : task.half == Half::kW ? 0 : -1;
        now.second += task.half == Half::kB ? 1 : task.half == Half::kW ? -1 : 0;
        of.insert(now);
      }
      // Keeps only the moments that no other moment exceeds in both.
      std::erase_if(of, [all = of](const std::pair<int, int>& at) {
        return std::any_of(all.begin(), all.end(), [&](const std::pair<int, int>& other) {
          return other != at && other.first >= at.first && other.second >= at.second;
        });
      });
    }
    return held;
  };
  return most(few) == most(plan.microbatches);
}

int64_t SimulatedMicrobatches(const SearchTask& task, int64_t all, int64_t pp,
                              const std::string& schedule) {
  bool splits = FindSchedule(schedule)->splits_backward;
  int64_t few = std::max(kRounds * pp, splits ? kFewestOfSplitBackward : kFewest);
  double size = static_cast<double>(task.model.graph.nodes.size()) * static_cast<double>(all);
  // With gpipe, all micro-batches are in flight together.
  bool whole = task.effort.every_microbatch || size < kQuickSteps || 2 * all < 3 * few ||
               schedule == "gpipe";
  return whole ? all : few;
}

int64_t SimulatedMicrobatches(const SearchTask& task, const Plan& plan) {
  if (plan.offload == Offload::kAll) return plan.microbatches;
  return SimulatedMicrobatches(task, plan.microbatches, PipelineDevices(plan), plan.schedule);
}

std::shared_ptr<const Model> RebatchedModels::Of(int64_t batch, DType compute) {
  std::unique_lock lock(mutex_);
  Made& made = made_[{batch, compute}];
  lock.unlock();
  std::call_once(made.once, [&] {
    try {
      bool same = batch == BatchSize(model_);
      made.model = std::make_shared<const Model>(
          WithComputeType(same ? model_ : Analyse(Rebatch(model_.graph, batch)), compute));
    } catch (const InputError&) {
    }
  });
  return made.model;
}

ShortStep LowerShort(const SearchTask& task, RebatchedModels& models, const Plan& plan) {
  ShortStep step;
  step.all_microbatches = step.microbatches = plan.microbatches;
  int64_t few = SimulatedMicrobatches(task, plan);
  if (few < plan.microbatches && HoldsAsMany(plan, few)) {
    if (std::optional<Program> program = LowerFew(models, plan, few)) {
      step.program = std::move(*program);
      step.microbatches = few;
      return step;
    }
  }
  std::shared_ptr<const Model> model = models.Of(BatchSize(task.model), plan.precision.compute);
  step.program = model != nullptr ? LowerConverted(*model, plan) : Lower(task.model, plan);
  return step;
}

SimResult SimulateShort(const ShortStep& step, const SearchTask& task, RebatchedModels& models,
                        const Plan& plan, const SimOptions& sim) {
  Simulation at = RunSimulation(step.program, task.cluster, sim, step.replayed);
  SimResult result = std::move(at.result);
  if (step.microbatches == step.all_microbatches) return result;
  double period = 0;
  if (FindSchedule(plan.schedule)->splits_backward) {
    // W is postponed to the end, so the pace of forwards is not that of the step. Simulating one
    // more round gives the period.
    int64_t round = PipelineDevices(plan);
    std::optional<Program> more = LowerFew(models, plan, step.microbatches + round);
    double longer = Simulate(*more, task.cluster, sim).step_seconds;
    period = (longer - result.step_seconds) / static_cast<double>(round);
  } else {
    period = PeriodOf(step.program, plan, at);
  }
  auto more = static_cast<double>(step.all_microbatches - step.microbatches);
  double seconds = result.step_seconds + more * period;
  double share =
      static_cast<double>(step.all_microbatches) / static_cast<double>(step.microbatches);
  result.bubble *= result.step_seconds / seconds;
  result.flops *= share;
  result.recomputed_flops *= share;
  result.step_seconds = seconds;
  return result;
}

}  // namespace heddle
