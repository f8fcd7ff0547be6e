// Real runs of `heddle fleet`, on CPU threads or a CUDA device: jobs run in shards, and on several devices each if that
// ends earlier.
#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/fleet_args.h"
#include "cli/torch/train_prepare.h"
#include "fleet/fleet_driver.h"
#include "fleet/one_device.h"
#include "host/supervisor/private_folder.h"
#include "report/fleet_screen.h"
#include "runtime/allocation_meter.h"
#include "runtime/fleet_job.h"

namespace heddle {
namespace {

std::atomic<bool> fleet_interrupted = false;

// The devices, the folder and the jobs of a fleet, made in this order.
class RealFleetRun {
 public:
  RealFleetRun(const FleetArgs& args, const PreparedFleet& fleet, const PolicyDef& policy)
      : args_(args), fleet_(fleet), policy_(policy) {
    MeterAllocations();
    MakeDevices();
    MakeFolder();
    if (!args.options.spill.empty() && fleet.machine().host_limit > 0) {
      place_.budget.left = fleet.machine().host_limit;
      place_.budget.folder = args.options.spill;
    }
    place_.threads = args.threads;
    place_.override_settings = args.override_settings;
    if (!args.checkpoint.empty()) place_.save_every = args.every;
    place_.run_shards = [this](ShardRunner& job, int64_t device, int64_t steps,
                               const std::atomic<bool>& stop, const auto& on_step) {
      RunOnOneDevice(job,
                     {.device = static_cast<int>(device),
                      .steps = steps,
                      .double_buffering = fleet_.options().double_buffering,
                      .stop = &stop},
                     policy_, on_step);
    };
    MakeJobs();
  }

  FleetScreenInput Run() {
    FleetScreenInput out;
    std::vector<JobRunner*> runners;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      out.names.push_back(fleet_.spec().jobs[j].name);
      out.steps.push_back(fleet_.works()[j].steps);
      runners.push_back(jobs_[j].get());
    }
    {
      FleetTable table(out.names, out.steps);
      FleetDriver driver(fleet_, std::move(runners),
                         {.policy = policy_,
                          .interrupted = &fleet_interrupted,
                          .on_step = [&](const FleetRun& run) { table.Update(run); },
                          .on_end = [&](int job, const FleetRun& run) { table.Ended(job, run); }});
      out.run = driver.Run();
    }
    for (const auto& job : jobs_) {
      out.losses.push_back(job->losses());
      out.shards.push_back(job->visits());
    }
    for (size_t s = 0; s < place_.fleet_devices.size(); ++s) {
      const FleetDevice& fleet_device = place_.fleet_devices[s];
      out.peak_bytes.push_back(fleet_device.device.is_cpu()
                                   ? std::max(fleet_device.meter.peak(), place_.peaks[s])
                                   : MemoryOf(fleet_device.device).peak);
    }
    out.memory_limit = fleet_.machine().memory;
    out.interrupted = fleet_interrupted;
    return out;
  }

 private:
  void MakeDevices() {
    const FleetMachine& machine = fleet_.machine();
    bool cuda = args_.device == "cuda";
    if (cuda) UseExpandableSegments();
    at::Device device = ChooseDevice(args_.device, 0);
    if (cuda && machine.devices > 1) {
      ThrowInput(
          "--device cuda: the cluster has {} devices, but jobs share one CUDA device: use a "
          "cluster of one",
          machine.devices);
    }
    for (int64_t d = 0; d < machine.devices; ++d)
      place_.fleet_devices.push_back(MakeFleetDevice(device));
    place_.peaks.assign(place_.fleet_devices.size(), 0);
    if (cuda) LimitMemory(device, machine.memory);
  }

  // The folder in which jobs are saved: that of --checkpoint, or a temporary one for jobs that move from shards to
  // several devices.
  void MakeFolder() {
    place_.folder = args_.checkpoint;
    if (place_.folder.empty() && fleet_.several()) {
      passing_.emplace(args_.options.spill.empty() ? DiskFolder() : args_.options.spill);
      place_.folder = passing_->path();
    }
    if (!place_.folder.empty()) std::filesystem::create_directories(place_.folder);
  }

  std::unique_ptr<FleetJob> MakeJob(size_t number) {
    const JobSpec& job = fleet_.spec().jobs[number];
    try {
      FleetJobSpec spec{.name = job.name,
                        .number = number,
                        .model = &fleet_.model(number),
                        .source = job.model,
                        .data = DataOf(args_.options.jobs, job),
                        .sparsity = job.sparsity};
      spec.options.steps = fleet_.works()[number].steps;
      spec.options.seed = static_cast<uint64_t>(job.seed);
      spec.options.optimizer.name = job.optimizer;
      spec.options.optimizer.lr = job.lr;
      spec.options.optimizer.weight_decay = job.weight_decay;
      spec.options.optimizer.momentum = job.momentum;
      spec.shards = fleet_.PlanOf(number);
      if (fleet_.several()) {
        const PlannedCurve& planned = fleet_.PlannedOf(number);
        for (size_t p = 0; p < planned.plans.size(); ++p)
          spec.gangs.push_back({planned.curve.points[p].devices, planned.plans[p]});
      }
      return std::make_unique<FleetJob>(place_, std::move(spec));
    } catch (const InputError& error) {
      ThrowInput("{}:{}: {}: {}", args_.options.jobs, job.line, job.name, error.what());
    }
  }

  // Makes all jobs before any of them runs. The error has the first mistake and the names of the other rejected jobs.
  void MakeJobs() {
    std::string first, others;
    for (size_t j = 0; j < fleet_.spec().jobs.size(); ++j) {
      try {
        jobs_.push_back(MakeJob(j));
      } catch (const InputError& error) {
        if (first.empty()) {
          first = error.what();
        } else {
          others += fmt::format("{}{}", others.empty() ? "" : ", ", fleet_.spec().jobs[j].name);
        }
      }
    }
    if (first.empty()) return;
    ThrowInput("{}{}{}", first, others.empty() ? "" : "; also rejected: ", others);
  }

  const FleetArgs& args_;
  const PreparedFleet& fleet_;
  const PolicyDef& policy_;
  FleetPlace place_;
  std::optional<PrivateFolder> passing_;  // deleted after the run
  std::vector<std::unique_ptr<FleetJob>> jobs_;
};

}  // namespace

void RunRealFleet(const FleetArgs& given) {
  FleetArgs args = given;
  if (args.deterministic && args.device != "cpu") UseDeterministicKernels();
  args.options.sim = SimOf(args.device);
  // Shards are cut by the memory of tensors alone. The copies that fused kernels avoid are counted nevertheless: they
  // leave room for fragmentation in the allocator that all jobs share.
  args.options.sim.stack.fused_loss = args.options.sim.fused_update = false;
  const PolicyDef& policy = PolicyOf(args);
  FleetSpec spec = ReadJobs(args);
  FleetMachine machine = MachineOf(args.options, spec);
  std::optional<PreparedFleet> prepared;
  {
    Phases phases("fleet", 1);
    phases.Begin("cutting models");
    prepared.emplace(PrepareFleet(args.options, spec, machine, phases));
  }
  RealFleetRun run(args, *prepared, policy);
  auto before = std::signal(SIGINT, [](int) { fleet_interrupted = true; });
  FleetScreenInput result = run.Run();
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
    ThrowRun("interrupted{}",
             args.checkpoint.empty() ? "" : ": the same command resumes from the last checkpoints");
  }
}

}  // namespace heddle
