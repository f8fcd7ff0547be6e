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

// The best plan for so many devices of this machine, at the same batch and precision.
RankPlan PlanAgain(const TrainArgs& args, const PreparedRun& prepared, int64_t devices) {
  SearchArgs search;
  search.budget = 5;
  search.mask = args.mask;
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
    ranks.words += fmt::format("; {} and other degrees that were given no longer hold", given);
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
          .metrics = args.metrics,
          .device = DescribeDevice(args.device),
          .trace = args.trace,
          .log_every = args.log_every,
          .json = args.model.json,
          .member = member,
          .began = began};
}

RunSources SourcesOf(const TrainArgs& args) {
  std::string weights = args.init == "seeded" ? "seeded" : "model";
  return {args.model.model, args.weights.empty() ? weights : args.weights, args.data};
}

int SuperviseRun(const TrainArgs& args, const PreparedRun& prepared, double began) {
  MetricsWriter checked(
      args.metrics);  // a place that cannot be written is known before anything starts
  SupervisedRun run;
  run.plan = ForRanks(prepared.plan, *prepared.model, prepared.program);
  run.replan = [&](int64_t devices) { return PlanAgain(args, prepared, devices); };
  run.transport = args.ranks.transport;
  run.timeout_seconds = args.ranks.deadline_seconds;
  run.prepare_seconds = SteadySeconds() - began;
  return SuperviseAndShow(args.supervise, std::move(run), began, args.model.json);
}

int Run(const TrainArgs& args, const LaunchInfo& launch, const Membership* member) {
  double began = SteadySeconds();
  args.supervise.Check(!args.checkpoint.options.folder.empty());
  PreparedRun prepared = Prepare(args, member);
  int64_t ranks = prepared.program.device_count();
  RankMode mode = ModeOf(launch, ranks, args.ranks.transport);
  if (mode != RankMode::kLaunched && ChooseDevice(args.device, 0).is_cpu())
    RequireMemory(prepared.program);
  if (args.ranks.transport == "nccl") RequireNccl(args.device);
  if (member == nullptr && args.supervise.Given() && mode == RankMode::kLaunched) {
    ThrowInput(
        "--restarts and --elastic under {}: heddle then starts the ranks itself, give --np {}",
        launch.launcher, ranks);
  }
  if (member == nullptr && (mode == RankMode::kLaunch || args.supervise.Given()))
    return SuperviseRun(args, prepared, began);
  int64_t here = mode == RankMode::kHere ? ranks : std::max(1, launch.size);
  int64_t cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  if (prepared.options.threads == 0)
    prepared.options.threads = static_cast<int>(std::max<int64_t>(1, cores / here));
  MachineFacts facts = ThisMachine();
  for (const auto& [key, value] :
       SoftwareFacts(prepared.options.threads, ChooseDevice(args.device, 0)))
    facts[key] = value;
  if (ranks > 1) facts["transport"] = mode == RankMode::kHere ? "threads" : "mpi";
  for (const auto& profile : prepared.prediction.profiles)
    RequireSameMachine(*profile, facts, "--profile");
  MeterAllocations();
  if (Spills(prepared.program)) UseExpandableSegments();
  RankOptions rank_options = args.ranks;
  if (member != nullptr) rank_options.slot = member->slot;
  return RunRanksHere(mode, ranks, launch, rank_options, [&](Transport& host) {
    bool first = host.rank() == 0;
    TrainOptions options = prepared.options;
    // Ranks that are threads share this process's first device and those after it.
    options.device =
        ChooseDevice(args.device, mode == RankMode::kHere ? host.rank() : launch.local_rank);
    if (!args.memory_limit.empty() && !options.device.is_cpu())
      LimitMemory(options.device, ParseBytes("--memory-limit", args.memory_limit));
    std::unique_ptr<Transport> nccl;
    if (args.ranks.transport == "nccl") {
      nccl = MakeNcclTransport(
          host, options.device,
          {.deadline_seconds = rank_options.deadline_seconds, .slot = rank_options.slot});
    }
    Transport& transport = nccl ? *nccl : host;
    TrainInputs inputs = prepared.InputsWith(
        RunJson(*prepared.model, prepared.plan, prepared.options, SourcesOf(args), *prepared.data));
    // Of ranks that are threads the first gives the signs of life.
    if (first || mode == RankMode::kLaunched) options.slot = rank_options.slot;
    std::unique_ptr<TrainScreen> screen;
    if (first) {
      screen = std::make_unique<TrainScreen>(ScreenOf(args, prepared, member, began));
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
  });
}

void Train(TrainArgs args) {
  LaunchInfo launch = ReadLaunch();
  int status = 0;
  if (args.deterministic && args.device != "cpu") UseDeterministicKernels();
  try {
    std::optional<Membership> member = JoinSupervisor(launch);
    if (member && member->table.header().attempt > 0) args.checkpoint.options.resume = true;
    ReportTo(member ? member->slot : nullptr,
             [&] { status = Run(args, launch, member ? &*member : nullptr); });
  } catch (const InputError&) {
    if (launch.rank != 0) std::exit(2);  // every rank sees the same input; the first reports it
    throw;
  }
  if (status != 0) std::exit(status);
}

void AddStart(CLI::App& command, TrainArgs& args) {
  command.add_option(
      "--data", args.data,
      "text, nanoGPT or llm.c .bin, Megatron .bin/.idx, or safetensors with a tensor per input; "
      "synthetic if not given");
  command.add_option("--weights", args.weights, "safetensors to start from, by parameter name");
  command.add_option("--mask", args.mask,
                     "train a pruned model: weights that the mask does not keep are zero (see "
                     "'heddle prune')");
  command
      .add_option("--init", args.init,
                  "where weights start: in the file (seeded if it has none), or seeded")
      ->check(CLI::IsMember({"file", "seeded"}))
      ->capture_default_str();
  AddSeedOption(command, args.seed, "of initial weights, the order of data, and dropout");
  command.add_flag("--fill-constants", args.fill_constants,
                   "make up constants whose data the file does not hold (a stripped export)");
}

void AddEvaluation(CLI::App& command, TrainArgs& args) {
  command.add_option("--eval-data", args.eval_data,
                     "held-out data, as --data: its loss is measured while training, without "
                     "dropout, and changes nothing");
  args.eval_every_given =
      command
          .add_option("--eval-every", args.eval_every,
                      "steps from one look at it to the next (default: a tenth of --steps); also "
                      "before the first and after the last")
          ->transform(IntegerIn(1, int64_t{1} << 40));
  args.eval_steps_given =
      command.add_option("--eval-steps", args.eval_steps, "batches of it, the same every time")
          ->transform(IntegerIn(1, int64_t{1} << 30))
          ->capture_default_str();
}

void AddOptimizer(CLI::App& command, TrainArgs& args) {
  TrainOptions& train = args.train;
  args.optimizer =
      command.add_option("--optimizer", train.optimizer.name, "how weights are updated")
          ->check(CLI::IsMember(OptimizerNames()))
          ->capture_default_str();
  command.add_option("--lr", train.optimizer.lr, "learning rate")
      ->transform(RealBelow(0, 1e6))
      ->capture_default_str();
  command.add_option("--lr-schedule", train.lr.kind, "of the learning rate")
      ->check(CLI::IsMember(LrScheduleNames()))
      ->capture_default_str();
  command.add_option("--warmup", train.lr.warmup_steps, "steps over which the learning rate rises")
      ->transform(IntegerIn(0, int64_t{1} << 40))
      ->capture_default_str();
  command
      .add_option("--final-lr", train.lr.final_fraction,
                  "of the learning rate, as a fraction, at the end")
      ->transform(RealIn(0, 1))
      ->capture_default_str();
  command.add_option("--betas", args.betas, "of Adam and AdamW, as in --betas 0.9,0.95")
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
      .add_option("--clip-norm", train.clip_norm, "largest norm of all gradients together; 0: any")
      ->transform(RealIn(0, 1e30))
      ->capture_default_str();
}

void AddOutput(CLI::App& command, TrainArgs& args) {
  command
      .add_option("--log-every", args.log_every,
                  "steps from one line to the next (default: as suits their number)")
      ->transform(IntegerIn(0));
  command.add_option("--metrics", args.metrics.jsonl,
                     "a line of JSON per step, appended to this file");
  command.add_option("--tensorboard", args.metrics.tensorboard,
                     "TensorBoard event files in this folder");
  command.add_option("--trace", args.trace,
                     "what ran when, as a Chrome trace (ui.perfetto.dev opens it)");
  command.add_flag("--kernels", args.kernels,
                   "on CUDA: where the time of the last steps went, kernel by kernel");
  command.add_option("--reference", args.reference,
                     "safetensors with a tensor 'losses' to print beside ours");
}

}  // namespace

void AddTrain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "train a model, or as a plan says");
  auto args = std::make_shared<TrainArgs>();
  args->train.threads = 0;
  args->model.Add(*command);
  command->get_option("MODEL")->description(
      "a model as for 'heddle plan', or the plan itself (a .json file)");
  AddPlanModelOption(*command, args->plan_model);
  command
      ->add_option("--np", args->np,
                   "number of ranks; without degrees a plan for them is searched for")
      ->transform(IntegerIn(1, 1 << 20));
  command
      ->add_option(
          "--transport", args->ranks.transport,
          "how ranks talk: mpi (processes, started with mpirun), nccl (the same, with a GPU each), "
          "threads (of this process)")
      ->check(CLI::IsMember({"mpi", "nccl", "threads"}))
      ->capture_default_str();
  command
      ->add_option("--timeout", args->ranks.deadline_seconds,
                   "seconds without a sign of life after which a rank counts as lost")
      ->transform(RealIn(1, 1e6))
      ->capture_default_str();
  command
      ->add_option("--device", args->device,
                   "what ranks compute on; auto: CUDA where there is a device")
      ->check(CLI::IsMember(DeviceNames()))
      ->capture_default_str();
  AddDeterministicFlag(*command, args->deterministic);
  command->add_flag("--eager", args->eager,
                    "on CUDA: every step instruction by instruction, not captured as a graph");
  AddMemoryLimitOption(*command, args->memory_limit,
                       "memory a device may use, such as 16GB: plans are made for it, and a CUDA "
                       "device takes no more");
  command->add_flag("--no-double-buffering", args->no_double_buffering,
                    "with --offload all: fetch a shard when the one before has ended");
  AddClusterOption(*command, args->cluster, "what it runs on (default: local:N)");
  AddStepsOption(*command, args->train.steps, "steps to train");
  AddThreadsOption(*command, args->train.threads, "threads per rank (default: cores over ranks)");
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
