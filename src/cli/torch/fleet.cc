// heddle fleet for real: jobs as programs in shards, run by threads of the CPU or a CUDA device.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/fleet_prepare.h"
#include "cli/torch/fleet_screen.h"
#include "cluster/yaml_tree.h"
#include "fleet/dispatch.h"
#include "graph/safetensors.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "runtime/data/data_source.h"
#include "runtime/prune.h"
#include "runtime/shard_job.h"

namespace heddle {
namespace {

std::atomic<bool> interrupted = false;

// A name that any file system takes: "03-xl_batch=16".
std::string FolderOf(const std::string& folder, size_t job, const std::string& name) {
  std::string safe = fmt::format("{:02}-", job);
  for (char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) || c == '=' || c == '.' ? c : '_';
  return (std::filesystem::path(folder) / safe).string();
}

struct RealJob {
  Program program;
  std::unique_ptr<Mask> mask;
  std::unique_ptr<DataSource> data;
  TrainOptions options;
  std::unique_ptr<ShardRunner> runner;
  std::string losses_file;     // empty: none
  std::vector<double> losses;  // of all its steps so far
};

// One line for each step: its loss, exactly.
std::vector<double> ReadLosses(const std::string& path, int64_t steps) {
  std::vector<double> losses;
  std::ifstream file(path);
  int64_t step = 0;
  double loss = 0;
  // A run that was killed leaves steps that are done again: the last line of a step counts.
  while (file >> step >> loss) {
    if (step < 0 || step > std::ssize(losses)) break;
    losses.resize(static_cast<size_t>(step));
    losses.push_back(loss);
  }
  if (std::ssize(losses) > steps) losses.resize(static_cast<size_t>(steps));
  return losses;
}

class RealFleetRun : public FleetObserver {
 public:
  RealFleetRun(const FleetArgs& args, const FleetSpec& spec, const FleetMachine& machine,
               const PreparedFleet& prepared)
      : args_(args), spec_(spec), machine_(machine), prepared_(prepared) {
    MeterAllocations();
    MakeSeats();
    if (!args.spill.empty() && machine.host_limit > 0) {
      budget_.left = machine.host_limit;
      budget_.folder = args.spill;
    }
    jobs_.resize(spec.jobs.size());
    for (size_t j = 0; j < jobs_.size(); ++j) Make(j);
    StartHalving();
  }

  FleetScreenInput Run(const PolicyDef& policy) {
    screen_.emplace(Names(), Steps());
    std::vector<DispatchJob> jobs;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      DispatchJob job{jobs_[j].runner.get(), StepsOf(j), spec_.jobs[j].priority, {}, false};
      for (const ShardRun& run : prepared_.works()[j].runs) job.visit_seconds.push_back(run.seconds);
      if (halving_) {
        HalvingVerdict verdict = halving_->VerdictOf(static_cast<int>(j));
        job.paused = verdict == HalvingVerdict::kWait;
        if (verdict == HalvingVerdict::kEnd) job.steps = jobs_[j].runner->first_step();
      }
      jobs.push_back(std::move(job));
    }
    FleetScreenInput out;
    out.run = Dispatch(jobs,
                       {.devices = static_cast<int>(seats_.size()),
                        .double_buffering = !args_.no_double_buffering,
                        .stop = &interrupted},
                       policy, this);
    screen_.reset();
    for (size_t j = 0; j < jobs_.size(); ++j) {
      out.names.push_back(spec_.jobs[j].name);
      out.steps.push_back(StepsOf(j));
      out.losses.push_back(jobs_[j].losses);
      out.shards.push_back(static_cast<int>(jobs_[j].program.RunOf(0).visits.size()));
    }
    for (const Seat& seat : seats_) {
      out.peak_bytes.push_back(seat.device.is_cpu() ? seat.meter.peak()
                                                    : MemoryOf(seat.device).peak);
    }
    out.memory_limit = machine_.memory;
    out.interrupted = interrupted;
    return out;
  }

  void OnStep(int j, const StepRecord& record, const FleetRun& so_far,
              DispatchControl& control) override {
    RealJob& job = jobs_[static_cast<size_t>(j)];
    job.losses.push_back(record.loss);
    if (!job.losses_file.empty()) {
      std::ofstream(job.losses_file, std::ios::app)
          << fmt::format("{} {:.17g}\n", record.step, record.loss);
    }
    if (halving_) {
      halving_->Report(j, record.step + 1, record.loss);
      Apply(control);
    }
    screen_->Update(so_far);
  }

  void OnEnd(int j, const FleetRun& so_far, DispatchControl& control) override {
    if (halving_ && !so_far.jobs[static_cast<size_t>(j)].error.empty()) {
      // It waits for nobody, and nobody for it.
      halving_->Report(j, halving_->NextReport(j), std::nan(""));
      Apply(control);
    }
    if (screen_) screen_->Ended(j, so_far);
  }

 private:
  int64_t StepsOf(size_t j) const { return prepared_.works()[j].steps; }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const JobSpec& job : spec_.jobs) names.push_back(job.name);
    return names;
  }
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (size_t j = 0; j < jobs_.size(); ++j) steps.push_back(StepsOf(j));
    return steps;
  }

  void MakeSeats() {
    bool cuda = args_.device == "cuda";
    at::Device device = ChooseDevice(args_.device, 0);
    if (cuda && machine_.devices > 1) {
      ThrowInput("--device cuda with {} devices: jobs share one CUDA device; give the cluster one",
                 machine_.devices);
    }
    for (int64_t d = 0; d < machine_.devices; ++d) seats_.push_back(MakeSeat(device));
    if (cuda) LimitMemory(device, machine_.memory);
  }

  void Make(size_t j) {
    const JobSpec& spec = spec_.jobs[j];
    const Model& model = prepared_.model(j);
    RealJob& job = jobs_[j];
    try {
      job.data = OpenData(model.graph, {.path = DataOf(args_.jobs, spec),
                                        .seed = static_cast<uint64_t>(spec.seed)});
      WeightSource weights = MakeWeights(model.graph, model.rules,
                                         {.seed = static_cast<uint64_t>(spec.seed)});
      Plan plan = prepared_.PlanOf(j);
      if (spec.sparsity > 0) MakeMask(j, weights, plan);
      RequireSound(plan, model, spec.name);
      job.program = Lower(model, plan, job.mask.get());
      SetOptions(j);
      Json run = {{"job", spec.name}, {"seed", spec.seed}};
      job.runner = MakeShardJob({job.program, weights, MakeConstants(model.graph, {}), *job.data, run},
                                job.options, seats_);
    } catch (const InputError& error) {
      ThrowInput("{}:{}: {}: {}", args_.jobs, spec.line, spec.name, error.what());
    }
    if (!job.losses_file.empty())
      job.losses = ReadLosses(job.losses_file, job.runner->first_step());
    if (std::ssize(job.losses) < job.runner->first_step()) {
      ThrowInput("{}: the losses of the steps before the checkpoint, {}, are not there: remove {}",
                 job.losses_file, job.runner->first_step(), job.options.checkpoint.folder);
    }
  }

  void MakeMask(size_t j, const WeightSource& weights, Plan& plan) {
    const Model& model = prepared_.model(j);
    auto masks = MakeMasks(model, weights, {.sparsity = spec_.jobs[j].sparsity});
    std::vector<NamedTensor> named;
    for (const auto& [name, mask] : masks) named.push_back({name, &mask});
    std::string path = (std::filesystem::temp_directory_path() /
                        fmt::format("heddle-mask-{}-{}", getpid(), j))
                           .string();
    WriteSafetensors(path, named);
    jobs_[j].mask = std::make_unique<Mask>(Mask::Open(path, model));
    std::filesystem::remove(path);
    plan.pruning = jobs_[j].mask->pruning();
  }

  void SetOptions(size_t j) {
    const JobSpec& spec = spec_.jobs[j];
    RealJob& job = jobs_[j];
    TrainOptions& options = job.options;
    options.steps = StepsOf(j);
    options.seed = static_cast<uint64_t>(spec.seed);
    options.optimizer.name = spec.optimizer;
    options.optimizer.lr = options.lr.lr = spec.lr;
    options.optimizer.weight_decay = spec.weight_decay;
    options.optimizer.momentum = spec.momentum;
    auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
    int64_t each = std::max<int64_t>(1, cores / static_cast<int64_t>(seats_.size()));
    options.threads = static_cast<int>(args_.threads > 0 ? args_.threads : each);
    options.mask = job.mask.get();
    if (!budget_.folder.empty()) options.host = &budget_;
    if (args_.checkpoint.empty()) return;
    std::string folder = FolderOf(args_.checkpoint, j, spec.name);
    options.checkpoint = {.folder = folder, .every = args_.every, .keep = 2, .resume = true};
    std::filesystem::create_directories(args_.checkpoint);
    job.losses_file = folder + ".losses";
  }

  // Rungs that jobs had reached when they were stopped are judged as they were then.
  void StartHalving() {
    if (!spec_.halving) return;
    halving_.emplace(*spec_.halving, Steps());
    for (bool more = true; more;) {
      more = false;
      for (size_t j = 0; j < jobs_.size(); ++j) {
        int job = static_cast<int>(j);
        int64_t next = halving_->NextReport(job);
        if (halving_->VerdictOf(job) != HalvingVerdict::kGoOn || next < 1 ||
            next > std::ssize(jobs_[j].losses) || next >= StepsOf(j))
          continue;
        halving_->Report(job, next, jobs_[j].losses[static_cast<size_t>(next - 1)]);
        more = true;
      }
    }
  }

  void Apply(DispatchControl& control) const {
    for (int j = 0; j < static_cast<int>(jobs_.size()); ++j) {
      switch (halving_->VerdictOf(j)) {
        case HalvingVerdict::kWait:
          control.Pause(j);
          break;
        case HalvingVerdict::kGoOn:
          control.Resume(j);
          break;
        case HalvingVerdict::kEnd:
          control.End(j);
          break;
      }
    }
  }

  const FleetArgs& args_;
  const FleetSpec& spec_;
  const FleetMachine& machine_;
  const PreparedFleet& prepared_;
  std::vector<Seat> seats_;
  HostBudget budget_;
  std::vector<RealJob> jobs_;
  std::optional<Halving> halving_;
  std::optional<FleetTable> screen_;
};

}  // namespace

void RunRealFleet(const FleetArgs& args) {
  const PolicyDef& policy = PolicyOf(args);
  FleetSpec spec = JobsFromYaml(ReadFile(args.jobs, kMaxYamlBytes), args.jobs);
  FleetMachine machine = MachineOf(args, spec);
  std::optional<PreparedFleet> prepared;
  {
    Phases phases("fleet", 1);
    phases.Begin("cutting models");
    prepared.emplace(args, spec, machine, phases);
  }
  RealFleetRun run(args, spec, machine, *prepared);
  auto before = std::signal(SIGINT, [](int) { interrupted = true; });
  FleetScreenInput result = run.Run(policy);
  std::signal(SIGINT, before);
  if (args.json) {
    PrintJson(ToJson(result));
  } else {
    fmt::print("{}", Screen(result));
  }
  std::fflush(stdout);
  size_t failed = 0;
  for (const DispatchedJob& job : result.run.jobs) failed += job.error.empty() ? 0 : 1;
  if (failed > 0) ThrowRun("{} of {} jobs failed", failed, result.run.jobs.size());
  if (result.interrupted) {
    ThrowRun("interrupted{}", args.checkpoint.empty()
                                  ? ""
                                  : ": the same command goes on from the last checkpoints");
  }
}

}  // namespace heddle
