#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/commands.h"
#include "cli/phases.h"
#include "cli/plan_args.h"
#include "cli/shared_options.h"
#include "plan/describe.h"
#include "program/lower.h"
#include "report/explanation.h"
#include "report/step_size.h"
#include "search/replicas/with_factors.h"
#include "search/searcher.h"

namespace heddle {
namespace {

struct ExplainArgs {
  std::string plan, model;
  double budget = 20;  // seconds
  bool json = false;
};

using Clock = std::chrono::steady_clock;

Clock::time_point After(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

SearchTask TaskOf(const LoadedPlan& loaded, const Cluster& cluster, double budget) {
  SearchProblem problem{.model = loaded.model, .cluster = cluster};
  problem.precision = loaded.plan.precision.compute;
  problem.gradients = loaded.plan.precision.gradients;
  problem.products = loaded.plan.precision.products;
  problem.local_batch_statistics = loaded.plan.local_batch_statistics;
  problem.optimizer = loaded.plan.optimizer;
  SearchEffort effort;
  effort.simulate_all = true;
  effort.deadline = After(budget);
  return {problem, effort};
}

// True if the other plan trains differently. The name of the model, the stage times that order a schedule and the end
// of the search do not count, and neither does a plan with the same simulated step and memory.
bool Differs(const Plan& plan, const SimResult& result, const JudgedPlan& other) {
  if (other.result.step_seconds == result.step_seconds &&
      other.reserved() == result.reserved_memory_bytes) {
    return false;
  }
  Plan same = other.plan;
  same.model = plan.model;
  same.search_stopped = plan.search_stopped;
  for (size_t s = 0; s < std::min(plan.stages.size(), same.stages.size()); ++s) {
    same.stages[s].times = plan.stages[s].times;
  }
  return same != plan;
}

Rival RivalOf(const JudgedPlan& judged) {
  return {DescribePlan(judged.plan), judged.result, judged.fits, {}};
}

// Finds the best different plan and the changes of the cluster that would reverse the order of the two.
void FindRival(const LoadedPlan& loaded, const Program& program, const SearchTask& task,
               double budget, Phases& phases, Explanation& out) {
  SearchResult found = Search(*FindSearcher("auto"), task);
  out.considered = found.proposals.considered;
  auto rival = std::find_if(
      found.judged.begin(), found.judged.end(),
      [&](const JudgedPlan& judged) { return Differs(loaded.plan, out.result, judged); });
  if (rival == found.judged.end()) return;
  out.rival = RivalOf(*rival);
  Program other = Lower(loaded.model, rival->plan);
  Clock::time_point deadline = After(budget);
  for (Knob knob : kKnobs) {
    if (Clock::now() > deadline) break;
    phases.Rename(fmt::format("changing {}", Name(knob)));
    out.rival->flips.push_back({knob, FindFlip(knob, program, other, task.cluster, task.sim)});
  }
}

// Searches with much larger device memories. Of the plans that are then faster than all that fit, finds the one that
// needs the least memory.
void FindWithMoreMemory(const LoadedPlan& loaded, const SearchProblem& problem, double budget,
                        Explanation& out) {
  constexpr double kFaster = 0.995;
  constexpr int64_t kTimes = 16;
  double best = out.fits ? out.result.step_seconds : INFINITY;
  if (out.rival && out.rival->fits) best = std::min(best, out.rival->result.step_seconds);
  Cluster larger = problem.cluster;
  int64_t least = INT64_MAX;
  for (DeviceType& type : larger.device_types) {
    least = std::min(least, type.memory.value);
    type.memory.value = std::min(kTimes * type.memory.value, kMaxMemory.value);
  }
  const JudgedPlan* chosen = nullptr;
  SearchResult found = Search(*FindSearcher("auto"), TaskOf(loaded, larger, budget));
  for (const JudgedPlan& judged : found.judged) {
    if (judged.reserved() <= out.memory_limit) continue;
    if (judged.result.step_seconds >= kFaster * best) continue;
    if (chosen == nullptr || judged.reserved() < chosen->reserved()) chosen = &judged;
  }
  if (chosen == nullptr) return;
  out.with_more_memory = RivalOf(*chosen);
  out.with_more_memory->fits = false;
  double needs = static_cast<double>(chosen->reserved()) / (1 - problem.reserve);
  out.missing_bytes = static_cast<int64_t>(needs) - least;
}

// Computes the step if the gradients that are computed from factors were reduced instead.
void FindReduced(const LoadedPlan& loaded, const SimOptions& options, Explanation& out) {
  out.factor_parameters = CountSync(loaded.plan, GradientSync::kFactors);
  if (out.factor_parameters == 0) return;
  Plan reduced = loaded.plan;
  for (Stage& stage : reduced.stages) {
    std::erase_if(stage.sync, [](const auto& at) { return at.second == GradientSync::kFactors; });
  }
  out.reduced_seconds =
      Simulate(Lower(loaded.model, reduced), reduced.cluster, options).step_seconds;
}

Explanation Explain(const ExplainArgs& args) {
  Phases phases("explaining", 4);
  phases.Begin("reading the plan and its model");
  LoadedPlan loaded = LoadPlan(args.plan, args.model);
  const Plan& plan = loaded.plan;
  phases.Begin("simulating it");
  SimOptions options;
  Program program = Lower(loaded.model, plan);
  Simulation simulation = RunSimulation(program, plan.cluster, options);
  SearchTask task = TaskOf(loaded, plan.cluster, args.budget);
  task.effort.progress = [&](const std::string& what) { phases.Rename(what); };
  Explanation out;
  out.model = loaded.model.graph.name;
  out.cluster = plan.cluster.name;
  out.plan = DescribePlan(plan);
  out.batch = plan.batch;
  out.microbatches = plan.microbatches;
  out.result = simulation.result;
  out.memory_limit = MemoryLimit(task);
  out.fits = out.result.reserved_memory_bytes <= out.memory_limit;
  FindReduced(loaded, options, out);
  out.groups = GroupBlocks(
      loaded.model, plan,
      CostsOfNodes(program, plan.cluster, simulation, options, loaded.model.graph.nodes.size()));
  const std::vector<DeviceResult>& devices = out.result.devices;
  auto busiest = std::max_element(
      devices.begin(), devices.end(),
      [](const DeviceResult& a, const DeviceResult& b) { return a.compute < b.compute; });
  out.traffic_device = busiest->device;
  out.traffic = OtherTraffic(program, simulation, busiest->device);
  phases.Begin("searching for other plans");
  FindRival(loaded, program, task, args.budget, phases, out);
  phases.Begin("searching with more memory");
  FindWithMoreMemory(loaded, task, args.budget, out);
  return out;
}

}  // namespace

void AddExplain(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "explain the speed of a plan, and what would make another one faster");
  auto args = std::make_shared<ExplainArgs>();
  command->add_option("PLAN", args->plan, "a plan file (see 'heddle plan -o')")->required();
  AddPlanModelOption(*command, args->model);
  AddBudgetOption(*command, args->budget, "seconds each search may take");
  AddJsonFlag(*command, args->json);
  command->footer(
      "For every kind of layer: what each node splits over each axis of the mesh, what it "
      "computes, what\ncollectives it needs and what it keeps, for one micro-batch on one device. "
      "Then the step's critical\npath, the best other plan the search finds, and by what factor "
      "links, products or memory would\nhave to change for the other plan to be faster.\n\n"
      "Example:\n"
      "  heddle explain plan.json");
  command->callback([args] {
    Explanation explanation = Explain(*args);
    if (args->json) {
      PrintJson(ToJson(explanation));
    } else {
      fmt::print("{}", Screen(explanation));
    }
  });
}

}  // namespace heddle
