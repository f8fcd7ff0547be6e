#include "cli/torch/train_prepare.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/plan_search.h"
#include "cli/quantity_args.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "frontend/load.h"
#include "plan/plan_file.h"
#include "plan/verify.h"
#include "runtime/accelerator.h"
#include "runtime/devices.h"
#include "runtime/torch_compat.h"
#include "search/remedy.h"
#include "search/replicas/with_factors.h"

namespace heddle {
namespace {

bool IsPlanFile(const std::string& path) {
  if (!path.ends_with(".json")) return false;
  Json json = ParseJson(ReadFile(path, kMaxJsonBytes), path);
  return json.is_object() && json.contains("heddle_plan");
}

// The plan that the search finds. Every rank finds the same plan, because no time limit stops the search.
Plan SearchedPlan(const TrainArgs& args, const Model& model, const Cluster& cluster) {
  SearchArgs search;
  search.budget = 1e6;
  search.profile = args.profile;
  search.mask = args.start.mask;
  search.memory_limit = args.device.memory_limit;
  search.optimizer = args.train.optimizer.name;
  search.sim = SimOf(args.device.name);
  std::string searcher;
  SearchResult result = FindPlan(search, args.degrees, model, cluster, &searcher);
  Plan plan = std::move(result.judged.front().plan);
  if (int64_t used = DeviceCount(plan); used < DeviceCount(cluster)) {
    LogInfo("the fastest plan for a batch of {} uses {} of {} ranks", plan.batch, used,
            DeviceCount(cluster));
  }
  return plan;
}

// The plan for the given degrees, or without degrees the plan that the search finds.
Plan PlanByDegrees(const TrainArgs& args, const Model& model) {
  bool given = args.degrees.Given();
  int64_t devices = args.np;
  if (devices == 0) devices = given ? DevicesOf(args.degrees.degrees) : 1;
  Cluster loaded =
      args.cluster.empty() ? ClusterHere(args.device.name, devices) : LoadCluster(args.cluster);
  bool several = args.np > 1 || (args.np == 0 && DeviceCount(loaded) > 1);
  bool expert = given || !args.degrees.FirstOfExpert().empty();
  bool spilled = args.degrees.Fixed().offload == Offload::kAll;  // only the search cuts shards
  if ((several && !expert) || spilled) return SearchedPlan(args, model, loaded);
  Degrees degrees = args.degrees.Resolve(model, loaded);
  if (args.np > 0 && DevicesOf(degrees) != args.np) {
    ThrowInput("--np {}: dp {} x tp {} x pp {} x cp {} is {} devices", args.np, degrees.dp,
               degrees.tp, degrees.pp, degrees.cp, DevicesOf(degrees));
  }
  Plan plan = ExpertPlan(model, loaded, degrees);
  Remark(loaded, degrees, plan.batch);
  if (!args.degrees.ChoosesSync()) return plan;
  SearchProblem problem{.model = model, .cluster = loaded};
  problem.precision = degrees.precision;
  problem.optimizer = args.train.optimizer.name;
  return FasterSync(problem, {std::move(plan), "expert"}).plan;
}

// Loads the model, and the plan or the supervisor's plan, which the supervisor has checked.
void LoadPlanOrModel(const TrainArgs& args, const Membership* member, PreparedRun& prepared) {
  prepared.model = std::make_unique<Model>();
  if (IsPlanFile(args.model.model)) {
    if (std::string given = args.degrees.FirstGiven(); !given.empty()) {
      ThrowInput("{} is a plan, which has its own degrees: leave out {} and other degrees",
                 args.model.model, given);
    }
    LoadedPlan loaded = LoadPlan(args.model.model, args.plan_model);
    *prepared.model = std::move(loaded.model);
    prepared.plan = std::move(loaded.plan);
    RequireSound(prepared.plan, *prepared.model, args.model.model);
    if (!args.cluster.empty() &&
        StableHash(LoadCluster(args.cluster)) != StableHash(prepared.plan.cluster)) {
      ThrowInput("{}: the plan is for the cluster {}, not for {}: make a new plan",
                 args.model.model, prepared.plan.cluster.name, args.cluster);
    }
    int64_t devices = DeviceCount(prepared.plan);
    if (args.np > 0 && args.np != devices) {
      ThrowInput("{}: the plan is for {} ranks, but --np is {}", args.model.model, devices,
                 args.np);
    }
  } else {
    *prepared.model = AnalyseToTrain(args.model.Load(), args.model.model);
    if (member == nullptr) prepared.plan = PlanByDegrees(args, *prepared.model);
  }
  if (args.device.no_double_buffering) prepared.plan.prefetch = 0;
  if (member != nullptr) {
    std::string file = *member / kPlanFile;
    prepared.plan = FromJson(ParseJson(ReadFile(file, kMaxJsonBytes), file), *prepared.model, file);
  }
  if (!args.start.weights.empty()) LoadWeights(prepared.model->graph, args.start.weights);
}

void RequireEvaluationData(const TrainArgs& args) {
  for (const CLI::Option* given : {args.evaluation.every_given, args.evaluation.steps_given}) {
    if (args.evaluation.data.empty() && given->count() > 0)
      ThrowInput("{} needs held-out data: give it with --eval-data", given->get_name());
  }
}

TrainOptions OptionsOf(const TrainArgs& args) {
  TrainOptions options = args.train;
  if (args.betas.size() != 2)
    ThrowInput("--betas: expected two numbers, {} given", args.betas.size());
  options.optimizer.betas = {args.betas[0], args.betas[1]};
  options.seed = static_cast<uint64_t>(args.start.seed);
  options.lr.lr = options.optimizer.lr;
  options.lr.total_steps = options.steps;
  options.trace = !args.output.trace.empty();
  options.checkpoint = args.checkpoint.Resolve();
  options.capture = !args.device.eager;
  options.kernels = args.output.kernels;
  options.evaluation.every =
      args.evaluation.every > 0 ? args.evaluation.every : std::max<int64_t>(1, options.steps / 10);
  options.evaluation.batches = args.evaluation.steps;
  Optimizer checked(options.optimizer);
  CheckSchedule(options.lr);
  if (!(options.clip_norm >= 0))
    ThrowInput("--clip-norm {}: it must not be negative", options.clip_norm);
  return options;
}

// Throws if the plan does not fit --memory-limit. A plan that the search found fits, but one that was given, or made
// from degrees, may not.
void RequireFitsLimit(const TrainArgs& args, const PreparedRun& prepared) {
  const Plan& plan = prepared.plan;
  SearchProblem problem{.model = *prepared.model, .cluster = plan.cluster};
  problem.fixed = args.degrees.Fixed();
  problem.precision = plan.precision.compute;
  problem.products = plan.precision.products;
  problem.local_batch_statistics = plan.local_batch_statistics;
  problem.optimizer = plan.optimizer;
  problem.pruning = plan.pruning;
  problem.memory_limit = ParseBytes("--memory-limit", args.device.memory_limit);
  problem.sim = prepared.prediction;
  RequireFits(problem, plan);
}

}  // namespace

PreparedRun Prepare(const TrainArgs& args, const Membership* member) {
  PreparedRun prepared;
  RequireEvaluationData(args);
  prepared.options = OptionsOf(args);
  LoadPlanOrModel(args, member, prepared);
  RequireRunnable(prepared.plan.precision);
  OpenMask(prepared, args.start.mask, args.model.model);
  prepared.prediction = SimOf(args.device.name);
  args.profile.ApplyTo(prepared.prediction, prepared.plan.cluster);
  if (args.optimizer->count() == 0) {
    prepared.options.optimizer.name = prepared.plan.optimizer;
    Optimizer checked(prepared.options.optimizer);
  }
  SetOptimizer(prepared.plan, prepared.options.optimizer.name);
  if (member == nullptr && !args.device.memory_limit.empty()) RequireFitsLimit(args, prepared);
  MakeReady(prepared, {args.start.data, args.evaluation.data, args.output.reference},
            {prepared.options.seed, args.start.init == "seeded", args.start.fill_constants});
  return prepared;
}

SimOptions SimOf(const std::string& device) {
  SimOptions sim;
  sim.fused_attention = kHasFusedAttention;
  sim.fused_norms = false;
  sim.stack.fused_loss = sim.fused_update = ChooseDevice(device, 0).is_cuda();
  return sim;
}

}  // namespace heddle
