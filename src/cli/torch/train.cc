#include "runtime/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/plan_search.h"
#include "cli/quantity_args.h"
#include "cli/shared_options.h"
#include "cli/torch/supervise.h"
#include "cli/torch/train_prepare.h"
#include "cli/torch/train_screen.h"
#include "cluster/load.h"
#include "cluster/machine.h"
#include "cluster/topology.h"
#include "host/host_memory.h"
#include "host/supervisor/member.h"
#include "plan/describe.h"
#include "plan/plan_file.h"
#include "plan/precision.h"
#include "program/lower.h"
#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"
#include "runtime/calibrate/calibrate.h"
#include "runtime/checkpoint/run_json.h"
#include "runtime/devices.h"
#include "runtime/ranks.h"
#include "runtime/transport/nccl.h"

namespace heddle {
namespace {

RankPlan ForRanks(const Plan& plan, const Model& model, const Program& program) {
  return {ToJson(plan, model), DescribePlan(plan), std::make_shared<Program>(program),
          DeviceCount(plan.cluster)};
}

// The best plan for `devices` devices of this machine, at the same batch and precision.
RankPlan PlanAgain(const TrainArgs& args, const PreparedRun& prepared, int64_t devices) {
  SearchArgs search;
  search.budget = 5;
  search.mask = args.start.mask;
  search.optimizer = prepared.plan.optimizer;
  DegreeArgs degrees;
  degrees.precision =
      PrecisionName(prepared.plan.precision.compute, prepared.plan.precision.products);
  degrees.statistics = args.degrees.statistics;
  std::string searcher;
  Cluster cluster = LoadCluster(fmt::format("local:{}", devices));
  SearchResult result = FindPlan(search, degrees, *prepared.model, cluster, &searcher);
  Plan plan = std::move(result.judged.front().plan);
  RankPlan ranks =
      ForRanks(plan, *prepared.model, Lower(*prepared.model, plan, prepared.mask.get()));
  if (std::string given = args.degrees.FirstGiven(); !given.empty())
    ranks.words += fmt::format("; {} and other given degrees no longer apply", given);
  return ranks;
}

ScreenOptions ScreenOf(const TrainArgs& args, const PreparedRun& prepared, const Membership* member,
                       double began) {
  return {.model = *prepared.model,
          .plan = prepared.plan,
          .program = prepared.program,
          .prediction = prepared.prediction,
          .data = *prepared.data,
          .train = prepared.options,
          .reference = prepared.reference,
          .metrics = args.output.metrics,
          .device = DescribeDevice(args.device.name),
          .trace = args.output.trace,
          .log_every = args.output.log_every,
          .json = args.model.json,
          .member = member,
          .began = began};
}

RunSources SourcesOf(const TrainArgs& args) {
  std::string weights = args.start.init == "seeded" ? "seeded" : "model";
  return {args.model.model, args.start.weights.empty() ? weights : args.start.weights,
          args.start.data};
}

int SuperviseRun(const TrainArgs& args, const PreparedRun& prepared, double began) {
  // The supervisor opens the files of metrics once, so that a path that cannot be written is an error before ranks
  // start.
  MetricsWriter checked(args.output.metrics);
  SupervisedRun run;
  run.plan = ForRanks(prepared.plan, *prepared.model, prepared.program);
  run.replan = [&](int64_t devices) { return PlanAgain(args, prepared, devices); };
  run.transport = args.ranks.transport;
  run.timeout_seconds = args.ranks.deadline_seconds;
  run.prepare_seconds = SteadySeconds() - began;
  return SuperviseAndShow(args.supervise, std::move(run), began, args.model.json);
}

// How the ranks of this process were started.
struct Launched {
  const LaunchInfo& info;
  RankMode mode;
  int64_t ranks;             // of the whole run
  const Membership* member;  // null: without a supervisor
};

void RequireStartable(const TrainArgs& args, const PreparedRun& prepared,
                      const Launched& launched) {
  bool is_launched = launched.mode == RankMode::kLaunched;
  if (!is_launched && ChooseDevice(args.device.name, 0).is_cpu()) RequireMemory(prepared.program);
  if (args.ranks.transport == "nccl") RequireNccl(args.device.name);
  if (launched.member == nullptr && args.supervise.Given() && is_launched) {
    ThrowInput(
        "--restarts and --elastic under {}: with these, heddle starts the ranks itself; give --np "
        "{}",
        launched.info.launcher, launched.ranks);
  }
}

// The cores of the machine are shared out over the ranks that run on it.
int ThreadsPerRank(const Launched& launched) {
  int64_t here =
      launched.mode == RankMode::kHere ? launched.ranks : std::max(1, launched.info.size);
  int64_t cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  return static_cast<int>(std::max<int64_t>(1, cores / here));
}

// Measured times hold for the machine and the libraries that they were measured with.
void RequireProfilesOfThisMachine(const TrainArgs& args, const PreparedRun& prepared,
                                  const Launched& launched) {
  MachineFacts facts = ThisMachine();
  for (const auto& [key, value] :
       SoftwareFacts(prepared.options.threads, ChooseDevice(args.device.name, 0)))
    facts[key] = value;
  if (launched.ranks > 1) facts["transport"] = launched.mode == RankMode::kHere ? "threads" : "mpi";
  for (const auto& profile : prepared.prediction.profiles)
    RequireSameMachine(*profile, facts, "--profile");
}

// Trains on one rank, which reaches the others over `host`. Rank 0 has the screen.
void TrainRank(const TrainArgs& args, const PreparedRun& prepared, const Launched& launched,
               const RankOptions& ranks, Transport& host, double began) {
  bool first = host.rank() == 0;
  bool threads = launched.mode == RankMode::kHere;
  TrainOptions options = prepared.options;
  // Ranks that are threads use the devices of this process in order.
  options.device = ChooseDevice(args.device.name, threads ? host.rank() : launched.info.local_rank);
  if (!args.device.memory_limit.empty() && !options.device.is_cpu())
    LimitMemory(options.device, ParseBytes("--memory-limit", args.device.memory_limit));
  std::unique_ptr<Transport> nccl;
  if (ranks.transport == "nccl") {
    nccl = MakeNcclTransport(host, options.device,
                             {.deadline_seconds = ranks.deadline_seconds, .slot = ranks.slot});
  }
  Transport& transport = nccl ? *nccl : host;
  TrainInputs inputs = prepared.InputsWith(
      RunJson(*prepared.model, prepared.plan, prepared.options, SourcesOf(args), *prepared.data));
  // Ranks that are threads share one slot, which the first one updates.
  if (first || launched.mode == RankMode::kLaunched) options.slot = ranks.slot;
  std::unique_ptr<TrainScreen> screen;
  if (first) {
    screen = std::make_unique<TrainScreen>(ScreenOf(args, prepared, launched.member, began));
    options.on_start = [&] { screen->Begin(); };
  }
  TrainSummary summary = TrainDevice(
      inputs, options, transport, [&](const StepRecord& record) { screen->Step(record); },
      [&](const HeldOutLoss& evaluation) { screen->Evaluated(evaluation); });
  if (!first) return;
  screen->Finish(summary);
  std::string missing = screen->missing();
  if (!summary.saving.not_saved.empty())
    missing += (missing.empty() ? "" : "; ") + summary.saving.not_saved;
  if (!missing.empty()) throw CommonRunError("training ended, but " + missing);
}

int Run(const TrainArgs& args, const LaunchInfo& launch, const Membership* member) {
  double began = SteadySeconds();
  args.supervise.Check(!args.checkpoint.options.folder.empty());
  PreparedRun prepared = Prepare(args, member);
  int64_t ranks = prepared.program.device_count();
  Launched launched{launch, ModeOf(launch, ranks, args.ranks.transport), ranks, member};
  RequireStartable(args, prepared, launched);
  if (member == nullptr && (launched.mode == RankMode::kLaunch || args.supervise.Given()))
    return SuperviseRun(args, prepared, began);
  if (prepared.options.threads == 0) prepared.options.threads = ThreadsPerRank(launched);
  RequireProfilesOfThisMachine(args, prepared, launched);
  MeterAllocations();
  if (Spills(prepared.program)) UseExpandableSegments();
  RankOptions options = args.ranks;
  if (member != nullptr) options.slot = member->slot;
  return RunRanksHere(launched.mode, ranks, launch, options, [&](Transport& host) {
    TrainRank(args, prepared, launched, options, host, began);
  });
}

void Train(TrainArgs args) {
  LaunchInfo launch = ReadLaunch();
  int status = 0;
  if (args.device.deterministic && args.device.name != "cpu") UseDeterministicKernels();
  try {
    std::optional<Membership> member = JoinSupervisor(launch);
    if (member && member->table.header().attempt > 0) args.checkpoint.options.resume = true;
    ReportTo(member ? member->slot : nullptr,
             [&] { status = Run(args, launch, member ? &*member : nullptr); });
  } catch (const InputError&) {
    if (launch.rank != 0) std::exit(2);  // every rank sees the same mistake; rank 0 reports it
    throw;
  }
  if (status != 0) std::exit(status);
}

void AddStart(CLI::App& command, TrainArgs& args) {
  command.add_option("--data", args.start.data,
                     "training data: text, nanoGPT or llm.c .bin, Megatron .bin/.idx, or "
                     "safetensors with a tensor per input (default: synthetic)");
  command.add_option("--weights", args.start.weights,
                     "initial weights: safetensors, by parameter name");
  command.add_option("--mask", args.start.mask,
                     "train a pruned model: weights that the mask does not keep are zero (see "
                     "'heddle prune')");
  command
      .add_option("--init", args.start.init,
                  "initial weights: those of the file (seeded if it has none), or seeded")
      ->check(CLI::IsMember({"file", "seeded"}))
      ->capture_default_str();
  AddSeedOption(command, args.start.seed, "of initial weights, data order and dropout");
  command.add_flag("--fill-constants", args.start.fill_constants,
                   "invent values of constants that the file does not contain (a stripped export)");
}

void AddEvaluation(CLI::App& command, TrainArgs& args) {
  command.add_option(
      "--eval-data", args.evaluation.data,
      "held-out data, as for --data: its loss is measured during training, without dropout "
      "and without changing the training");
  args.evaluation.every_given =
      command
          .add_option(
              "--eval-every", args.evaluation.every,
              "steps between evaluations (default: a tenth of --steps), besides those before the "
              "first and after the last step")
          ->transform(IntegerIn(1, int64_t{1} << 40));
  args.evaluation.steps_given = command
                                    .add_option("--eval-steps", args.evaluation.steps,
                                                "batches per evaluation, always the same ones")
                                    ->transform(IntegerIn(1, int64_t{1} << 30))
                                    ->capture_default_str();
}

void AddOptimizer(CLI::App& command, TrainArgs& args) {
  TrainOptions& train = args.train;
  args.optimizer = command.add_option("--optimizer", train.optimizer.name, "optimizer")
                       ->check(CLI::IsMember(OptimizerNames()))
                       ->capture_default_str();
  command.add_option("--lr", train.optimizer.lr, "learning rate")
      ->transform(RealBelow(0, 1e6))
      ->capture_default_str();
  command.add_option("--lr-schedule", train.lr.kind, "learning rate schedule")
      ->check(CLI::IsMember(LrScheduleNames()))
      ->capture_default_str();
  command.add_option("--warmup", train.lr.warmup_steps, "steps over which the learning rate rises")
      ->transform(IntegerIn(0, int64_t{1} << 40))
      ->capture_default_str();
  command
      .add_option("--final-lr", train.lr.final_fraction,
                  "learning rate at the end, as a fraction of --lr")
      ->transform(RealIn(0, 1))
      ->capture_default_str();
  command.add_option("--betas", args.betas, "of Adam and AdamW, such as 0.9,0.95")
      ->delimiter(',')
      ->type_name("A,B")
      ->transform(RealBelow(0, 1));
  command.add_option("--eps", train.optimizer.eps, "of Adam and AdamW")
      ->transform(RealBelow(0, 1))
      ->capture_default_str();
  command.add_option("--weight-decay", train.optimizer.weight_decay, "weight decay")
      ->transform(RealBelow(0, 1e6))
      ->capture_default_str();
  command
      .add_option("--clip-norm", train.clip_norm,
                  "largest norm of all gradients together; 0: no clipping")
      ->transform(RealIn(0, 1e30))
      ->capture_default_str();
}

void AddOutput(CLI::App& command, TrainArgs& args) {
  command
      .add_option("--log-every", args.output.log_every,
                  "steps between lines (default: chosen by the number of steps)")
      ->transform(IntegerIn(0));
  command.add_option("--metrics", args.output.metrics.jsonl,
                     "append a line of JSON per step to this file");
  command.add_option("--tensorboard", args.output.metrics.tensorboard,
                     "write TensorBoard event files to this folder");
  command.add_option("--trace", args.output.trace,
                     "write a trace of the run, which ui.perfetto.dev opens");
  command.add_flag("--kernels", args.output.kernels,
                   "on CUDA: print the time of the last steps by kernel");
  command.add_option("--reference", args.output.reference,
                     "safetensors with a tensor 'losses' to print beside those of the run");
}

}  // namespace

void AddTrain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "train a model, by a plan if one is given");
  auto args = std::make_shared<TrainArgs>();
  args->train.threads = 0;
  args->model.Add(*command);
  command->get_option("MODEL")->description(
      "a model as for 'heddle plan', or the plan itself (a .json file)");
  AddPlanModelOption(*command, args->plan_model);
  command
      ->add_option("--np", args->np,
                   "number of ranks; if no degrees are given, a plan for them is searched for")
      ->transform(IntegerIn(1, 1 << 20));
  command
      ->add_option("--transport", args->ranks.transport,
                   "how ranks communicate: mpi (processes started with mpirun), nccl (the same "
                   "with a GPU each), threads (of this process)")
      ->check(CLI::IsMember({"mpi", "nccl", "threads"}))
      ->capture_default_str();
  command
      ->add_option("--timeout", args->ranks.deadline_seconds,
                   "seconds without a heartbeat after which a rank counts as lost")
      ->transform(RealIn(1, 1e6))
      ->capture_default_str();
  command
      ->add_option("--device", args->device.name,
                   "device of the ranks; auto: CUDA if there is a device")
      ->check(CLI::IsMember(DeviceNames()))
      ->capture_default_str();
  AddDeterministicFlag(*command, args->device.deterministic);
  command->add_flag(
      "--eager", args->device.eager,
      "on CUDA: run each step instruction by instruction, without capturing it as a graph");
  AddMemoryLimitOption(
      *command, args->device.memory_limit,
      "memory a device may use, such as 16GB: plans must fit it, and a CUDA device cannot "
      "allocate more");
  command->add_flag("--no-double-buffering", args->device.no_double_buffering,
                    "with --offload all: fetch each shard only after the previous one has ended");
  AddClusterOption(*command, args->cluster, "the cluster to train on (default: local:N)");
  AddStepsOption(*command, args->train.steps, "steps to train");
  AddThreadsOption(*command, args->train.threads, "threads per rank (default: cores / ranks)");
  args->profile.Add(*command);
  args->degrees.Add(*command);
  AddStart(*command, *args);
  AddEvaluation(*command, *args);
  AddOptimizer(*command, *args);
  args->checkpoint.Add(*command);
  args->supervise.Add(*command);
  AddOutput(*command, *args);
  command->footer(
      "Examples:\n  heddle train tiny-gpt2.onnx --data batch.safetensors --steps 20\n"
      "  heddle train gpt:layers=4,hidden=128,heads=4,seq=64,vocab=256,batch=8 --dp 2 --tp 2 "
      "--data input.txt\n"
      "  heddle train plan.json --data train.bin --eval-data held-out.bin --steps 1000");
  command->callback([args] { Train(*args); });
}

}  // namespace heddle
