#include "program/lower.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/parallel.h"
#include "plan/precision.h"
#include "program/alike_builds.h"
#include "program/emit.h"
#include "program/runs.h"

namespace heddle {
namespace {

// The ends of a transfer as their stages have them.
struct TransferEnd {
  StageId stage;
  LocalId local;
};

void Link(const TransferEnd& from, const TransferEnd& to, StageBuilds& builds, Program& program) {
  TransferId id = program.transfers.Add({from.stage, to.stage, from.local, to.local});
  builds[to.stage].stage.locals[to.local].source = FromTransfer{id};
}

void LinkTransfers(StageBuilds& builds, Program& program) {
  for (StageId s : builds.ids()) {
    for (const auto& [id, sent] : builds[s].sent) {
      for (StageId t : builds.ids()) {
        auto received = builds[t].received.find(id);
        if (received == builds[t].received.end()) continue;
        Link({s, sent.local}, {t, received->second.local}, builds, program);
        auto back = received->second.gradients.find(StageId{});
        if (back == received->second.gradients.end()) continue;
        Link({t, back->second}, {s, sent.gradients.at(t)}, builds, program);
      }
    }
  }
}

void LinkTied(StageBuilds& builds, Program& program) {
  std::map<ValueId, TiedGroup> tied;
  for (StageId s : builds.ids()) {
    const ParameterGroups& groups = builds[s].stage.groups;
    for (ParameterGroupId g : groups.ids()) {
      if (groups[g].slots.size() == 1 && groups[g].trained)
        tied[groups[g].slots[0].parameter].holders.push_back({s, g});
    }
  }
  for (auto& [id, group] : tied) {
    if (group.holders.size() < 2) continue;
    TiedGroupId made = program.tied.Add(group);
    for (const auto& [s, g] : group.holders) builds[s].stage.groups[g].tied = made;
  }
}

// As if nothing were trained.
void DropBackward(StageProgram& stage) {
  for (Segment& segment : stage.segments) {
    for (SegmentInput& input : segment.inputs) input = {.local = input.local};
    for (SegmentOutput& output : segment.outputs) output.gradient = {};
    segment.unit = {};
    segment.has_backward = false;
  }
  for (ParameterGroup& group : stage.groups) {
    // Weights of ZeRO 1 and 2 are whole between steps, and so are those that a server has sent.
    if (!SplitsWeights(group.zero)) group.zero = 0;
    group.reduce_axes = group.zero_axes = SplitsWeights(group.zero) ? group.zero_axes : 0;
    group.trained = group.offloaded = false;
    group.tied = {};
    group.server = -1;
  }
  stage.parameter_gradients.clear();
  stage.factor_gradients.clear();
}

void DropBackward(Program& program, Timetable& timetable) {
  for (StageProgram& stage : program.stages) DropBackward(stage);
  program.tied.clear();
  for (std::vector<Task>& tasks : timetable) {
    std::erase_if(tasks, [](const Task& task) { return task.half != Half::kF; });
  }
}

// Of a model in the plan's compute type.
Program LowerHalves(const Model& model, const Plan& plan, const Mask* mask, bool forward_only) {
  ExpandedPlan expanded = Expand(model, plan);
  Rules rules = MicroRules(expanded.model, plan.microbatches);
  size_t values = expanded.model.graph.values.size();
  MicrobatchSums sums{std::vector<bool>(values, false), std::vector<bool>(values, false)};
  if (plan.microbatches > 1) sums = FindMicrobatchSums(expanded.model, plan.local_batch_statistics);
  LoweringContext context{expanded, plan, rules, std::move(sums), {}, {}, mask};
  FindReaders(context);
  StageBuilds builds = BuildStages(context);

  Program program;
  LinkTransfers(builds, program);
  LinkTied(builds, program);
  program.microbatches = plan.microbatches;
  program.precision = plan.precision;
  for (StageBuild& build : builds) program.stages.push_back(std::move(build.stage));
  std::vector<Run> runs = FindRuns(plan);
  Timetable timetable = TimetableOf(plan, runs);
  if (forward_only) DropBackward(program, timetable);
  std::vector<DeviceProgram> emitted(runs.size());
  InParallel(runs.size(),
             [&](size_t r) { emitted[r] = Emit(program, builds, plan, runs[r], timetable[r]); });
  program.runs = std::move(emitted);
  program.model = std::move(expanded.model);
  if (forward_only) program.model.flow.needed.assign(values, false);
  program.origin = std::move(expanded.origin);
  program.micro_rules = std::move(rules);
  return program;
}

}  // namespace

Program Lower(const Model& model, const Plan& plan, const Mask* mask) {
  return LowerHalves(WithComputeType(model, plan.precision.compute), plan, mask, false);
}

Program LowerConverted(const Model& model, const Plan& plan) {
  return LowerHalves(model, plan, nullptr, false);
}

Program LowerForward(const Model& model, const Plan& plan, const Mask* mask) {
  return LowerHalves(WithComputeType(model, plan.precision.compute), plan, mask, true);
}

}  // namespace heddle
