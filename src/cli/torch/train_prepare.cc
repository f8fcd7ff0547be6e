#include "cli/torch/train_prepare.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/plan_search.h"
#include "cli/quantity_args.h"
#include "cli/torch/devices.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "frontend/load.h"
#include "graph/safetensors.h"
#include "plan/plan_file.h"
#include "plan/precision.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "runtime/accelerator.h"
#include "runtime/torch_compat.h"
#include "search/replicas/with_factors.h"

namespace heddle {
namespace {

// Losses to print beside ours, from a safetensors file.
std::vector<double> ReadReference(const std::string& path, int64_t steps) {
  SafetensorsFile file = SafetensorsFile::Open(path);
  for (std::string_view name : {"losses", "adamw_losses"}) {
    if (file.Find(name) == nullptr) continue;
    HostTensor tensor = file.Load(name);
    std::vector<double> losses;
    for (int64_t i = 0; i < tensor.size(); ++i) losses.push_back(AsDouble(tensor, i));
    bool finite =
        std::all_of(losses.begin(), losses.end(), [](double x) { return std::isfinite(x); });
    if (losses.empty() || !finite) ThrowInput("{}: tensor '{}' holds no finite losses", path, name);
    if (static_cast<int64_t>(losses.size()) < steps) {
      ThrowInput("{}: {} losses for {} steps; use --steps {}", path, losses.size(), steps,
                 losses.size());
    }
    return losses;
  }
  ThrowInput("{}: no tensor 'losses' or 'adamw_losses'", path);
}

bool IsPlanFile(const std::string& path) {
  if (!path.ends_with(".json")) return false;
  Json json = ParseJson(ReadFile(path, kMaxJsonBytes), path);
  return json.is_object() && json.contains("heddle_plan");
}

// The search's, for so many ranks. Every rank finds the same: no clock stops it.
Plan SearchedPlan(const TrainArgs& args, const Model& model, const Cluster& cluster) {
  SearchArgs search;
  search.budget = 1e6;
  search.profile = args.profile;
  search.mask = args.mask;
  search.memory_limit = args.memory_limit;
  search.optimizer = args.train.optimizer.name;
  search.sim = SimOf(args.device);
  std::string searcher;
  SearchResult result = FindPlan(search, args.degrees, model, cluster, &searcher);
  Plan plan = std::move(result.judged.front().plan);
  if (int64_t used = DeviceCount(plan); used < DeviceCount(cluster)) {
    LogInfo("the batch of {} is best trained by {} of {} ranks", plan.batch, used,
            DeviceCount(cluster));
  }
  return plan;
}

// By degrees; without them searched for.
Plan PlanByDegrees(const TrainArgs& args, const Model& model) {
  bool given = args.degrees.Given();
  int64_t devices = args.np;
  if (devices == 0) devices = given ? DevicesOf(args.degrees.degrees) : 1;
  Cluster loaded =
      args.cluster.empty() ? ClusterHere(args.device, devices) : LoadCluster(args.cluster);
  bool several = args.np > 1 || (args.np == 0 && DeviceCount(loaded) > 1);
  bool expert = given || !args.degrees.FirstOfExpert().empty();
  bool spilled = args.degrees.Fixed().offload == Offload::kAll;  // shards are for the search to cut
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

// A rank runs the plan of its supervisor, who has looked at everything.
void LoadPlanOrModel(const TrainArgs& args, const Membership* member, PreparedRun& prepared) {
  prepared.model = std::make_unique<Model>();
  if (IsPlanFile(args.model.model)) {
    if (std::string given = args.degrees.FirstGiven(); !given.empty()) {
      ThrowInput("{} is a plan: {} and other degrees are its own", args.model.model, given);
    }
    LoadedPlan loaded = LoadPlan(args.model.model, args.plan_model);
    *prepared.model = std::move(loaded.model);
    prepared.plan = std::move(loaded.plan);
    RequireSound(prepared.plan, *prepared.model, args.model.model);
    if (!args.cluster.empty() &&
        StableHash(LoadCluster(args.cluster)) != StableHash(prepared.plan.cluster)) {
      ThrowInput("{}: the plan is for the cluster {}, not for {}: plan again", args.model.model,
                 prepared.plan.cluster.name, args.cluster);
    }
    int64_t devices = DeviceCount(prepared.plan);
    if (args.np > 0 && args.np != devices) {
      ThrowInput("{}: the plan is for {} ranks, --np is {}", args.model.model, devices, args.np);
    }
  } else {
    *prepared.model = AnalyseToTrain(args.model.Load(), args.model.model);
    if (member == nullptr) prepared.plan = PlanByDegrees(args, *prepared.model);
  }
  if (args.no_double_buffering) prepared.plan.prefetch = 0;
  if (member != nullptr) {
    std::string file = *member / kPlanFile;
    prepared.plan = FromJson(ParseJson(ReadFile(file, kMaxJsonBytes), file), *prepared.model, file);
  }
  if (!args.weights.empty()) LoadWeights(prepared.model->graph, args.weights);
}

TrainOptions OptionsOf(const TrainArgs& args) {
  TrainOptions options = args.train;
  if (args.betas.size() != 2) ThrowInput("--betas takes two numbers, {} given", args.betas.size());
  options.optimizer.betas = {args.betas[0], args.betas[1]};
  options.seed = static_cast<uint64_t>(args.seed);
  options.lr.lr = options.optimizer.lr;
  options.lr.total_steps = options.steps;
  options.trace = !args.trace.empty();
  options.checkpoint = args.checkpoint.Resolve();
  options.capture = !args.eager;
  options.kernels = args.kernels;
  Optimizer checked(options.optimizer);
  CheckSchedule(options.lr);
  if (!(options.clip_norm >= 0))
    ThrowInput("--clip-norm {}: it must not be negative", options.clip_norm);
  return options;
}

// What plans may say and the kernels here do not do.
void RequireRunnable(const Precision& precision) {
  if (precision.products == Products::kAsCompute) return;
  ThrowInput("precision {}: such a plan can be simulated but not run yet; use f32, bf16 or f16",
             PrecisionName(precision.compute, precision.products));
}

// What is kept is what the mask says, whatever was planned with.
void OpenMask(const TrainArgs& args, PreparedRun& prepared) {
  if (args.mask.empty()) {
    if (!prepared.plan.pruning.any()) return;
    ThrowInput("{}: the plan is for a pruned model: give its mask (--mask, see 'heddle prune')",
               args.model.model);
  }
  prepared.mask = std::make_unique<Mask>(Mask::Open(args.mask, *prepared.model));
  prepared.plan.pruning = prepared.mask->pruning();
  prepared.options.mask = prepared.mask.get();
}

// A plan that was given, or made by degrees, has to fit the limit like one that is searched for.
void RequireFitsLimit(const TrainArgs& args, const PreparedRun& prepared) {
  const Plan& plan = prepared.plan;
  SearchProblem problem{.model = *prepared.model, .cluster = plan.cluster};
  problem.fixed = args.degrees.Fixed();
  problem.precision = plan.precision.compute;
  problem.products = plan.precision.products;
  problem.local_batch_statistics = plan.local_batch_statistics;
  problem.optimizer = plan.optimizer;
  problem.pruning = plan.pruning;
  problem.memory_limit = ParseBytes("--memory-limit", args.memory_limit);
  problem.sim = prepared.prediction;
  RequireFits(problem, plan);
}

// What is held out is read once here: a token that the model does not know is seen before anything is trained.
void PrepareEvaluation(const TrainArgs& args, PreparedRun& prepared) {
  for (const CLI::Option* given : {args.eval_every_given, args.eval_steps_given}) {
    if (args.eval_data.empty() && given->count() > 0)
      ThrowInput("{} says how to look at held-out data: give it with --eval-data",
                 given->get_name());
  }
  if (args.eval_data.empty()) return;
  const Graph& graph = prepared.model->graph;
  HeldOutOptions& options = prepared.options.evaluation;
  options.every =
      args.eval_every > 0 ? args.eval_every : std::max<int64_t>(1, prepared.options.steps / 10);
  options.batches = args.eval_steps;
  prepared.held_out = OpenData(graph, {.path = args.eval_data, .seed = prepared.options.seed});
  for (int64_t batch = 0; batch < options.batches; ++batch)
    prepared.held_out->Rows(batch, {0, BatchOf(graph)});
  prepared.forward =
      std::make_unique<Program>(LowerForward(*prepared.model, prepared.plan, prepared.mask.get()));
  std::vector<std::string> wrong = Verify(*prepared.forward);
  HEDDLE_CHECK(wrong.empty(), "the forward program is unsound: {}", wrong.front());
}

}  // namespace

PreparedRun Prepare(const TrainArgs& args, const Membership* member) {
  PreparedRun prepared;
  prepared.options = OptionsOf(args);
  LoadPlanOrModel(args, member, prepared);
  RequireRunnable(prepared.plan.precision);
  OpenMask(args, prepared);
  prepared.prediction = SimOf(args.device);
  args.profile.ApplyTo(prepared.prediction, prepared.plan.cluster);
  const Model& model = *prepared.model;
  if (args.optimizer->count() == 0) {
    prepared.options.optimizer.name = prepared.plan.optimizer;
    Optimizer checked(prepared.options.optimizer);
  }
  SetOptimizer(prepared.plan, prepared.options.optimizer.name);
  if (member == nullptr && !args.memory_limit.empty()) RequireFitsLimit(args, prepared);
  prepared.data = OpenData(model.graph, {.path = args.data, .seed = prepared.options.seed});
  WeightOptions start{prepared.options.seed, args.init == "seeded", args.fill_constants};
  prepared.constants = MakeConstants(model.graph, start);
  prepared.weights = MakeWeights(model.graph, model.rules, start);
  if (!args.reference.empty())
    prepared.reference = ReadReference(args.reference, prepared.options.steps);
  prepared.program = Lower(model, prepared.plan, prepared.mask.get());
  std::vector<std::string> wrong = Verify(prepared.program);
  HEDDLE_CHECK(wrong.empty(), "the program is unsound: {}", wrong.front());
  PrepareEvaluation(args, prepared);
  return prepared;
}

SimOptions SimOf(const std::string& device) {
  SimOptions sim;
  sim.fused_attention = kHasFusedAttention;
  sim.fused_norms = false;
  sim.stack.fused_loss = sim.fused_update = ChooseDevice(device, 0).is_cuda();
  return sim;
}

void RequireMemory(const Program& program) {
  double bytes = 0;
  double moments = program.precision.moments_kept;
  for (const StageProgram& stage : program.stages) {
    for (const ParameterGroup& group : stage.groups) {
      double flat =
          static_cast<double>(FlatElements(stage, group, Position(stage.mesh.axes.size(), 0)));
      double shard = flat / static_cast<double>(GroupSize(stage.mesh, group.zero_axes));
      double state = 4 * moments * shard + 4 * (group.zero >= 2 ? shard : flat);
      state +=
          static_cast<double>(SizeOf(program.precision.compute)) * (group.zero == 3 ? shard : flat);
      bytes += state * static_cast<double>(stage.mesh.size());
    }
  }
  double memory = HostMemoryBytes();
  if (bytes <= memory) return;
  ThrowInput(
      "weights, gradients and optimizer state of {} ranks take {}, this machine has {}: use a "
      "smaller model or "
      "more machines (mpirun, srun)",
      program.device_count(), FormatBytes(Bytes{static_cast<int64_t>(bytes)}),
      FormatBytes(Bytes{static_cast<int64_t>(memory)}));
}

}  // namespace heddle
