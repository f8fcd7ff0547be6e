// heddle fleet for real, on threads of the CPU or a CUDA device: jobs in shards, and on several devices each where that is
// sooner.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/torch/fleet_job.h"
#include "cli/torch/fleet_screen.h"
#include "cli/torch/private_folder.h"
#include "cli/torch/train_prepare.h"
#include "cluster/yaml_tree.h"
#include "fleet/widen.h"

namespace heddle {
namespace {

std::atomic<bool> fleet_interrupted = false;

class RealFleetRun : public FleetObserver {
 public:
  RealFleetRun(const FleetArgs& args, const FleetSpec& spec, const FleetMachine& machine,
               const PreparedFleet& prepared, const PolicyDef& policy)
      : spec_(spec),
        prepared_(prepared),
        place_{.args = args, .machine = machine, .policy = policy} {
    MeterAllocations();
    MakeSeats();
    MakeFolder();
    if (!args.spill.empty() && machine.host_limit > 0) {
      place_.budget.left = machine.host_limit;
      place_.budget.folder = args.spill;
    }
    MakeJobs();
    StartHalving();
  }

  FleetScreenInput Run() {
    screen_.emplace(Names(), Steps());
    FleetScreenInput out;
    out.run.jobs.resize(jobs_.size());
    for (size_t j = 0; j < jobs_.size(); ++j) {
      out.run.jobs[j].step = jobs_[j]->first_step();
      out.run.jobs[j].remaining_seconds = TotalSeconds(Left(j, out.run.jobs[j].step));
    }
    if (!GoesWide(out.run)) out.run = RunShards();
    if (goes_wide_ && !fleet_interrupted) RunSeveral(out.run);
    screen_.reset();
    for (size_t j = 0; j < jobs_.size(); ++j) {
      out.names.push_back(spec_.jobs[j].name);
      out.steps.push_back(StepsOf(j));
      out.losses.push_back(jobs_[j]->losses());
      out.shards.push_back(jobs_[j]->visits());
    }
    for (size_t s = 0; s < place_.fleet_devices.size(); ++s) {
      const FleetDevice& fleet_device = place_.fleet_devices[s];
      out.peak_bytes.push_back(fleet_device.device.is_cpu()
                                   ? std::max(fleet_device.meter.peak(), place_.peaks[s])
                                   : MemoryOf(fleet_device.device).peak);
    }
    out.memory_limit = place_.machine.memory;
    out.interrupted = fleet_interrupted;
    return out;
  }

  void OnStep(int j, const StepRecord& record, const FleetRun& so_far,
              DispatchControl& control) override {
    jobs_[static_cast<size_t>(j)]->Add(record);
    if (halving_) {
      halving_->Report(j, record.step + 1, record.loss);
      Apply(control);
    }
    if (fleet_interrupted) stopped_ = true;
    screen_->Update(so_far);
  }

  void OnEnd(int j, const FleetRun& so_far, DispatchControl& control) override {
    if (halving_ && !so_far.jobs[static_cast<size_t>(j)].error.empty()) {
      // It waits for nobody, and nobody for it.
      halving_->Report(j, halving_->NextReport(j), std::nan(""));
      Apply(control);
    }
    screen_->Ended(j, so_far);
    if (GoesWide(so_far)) stopped_ = true;
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
    const FleetMachine& machine = place_.machine;
    bool cuda = place_.args.device == "cuda";
    if (cuda) UseExpandableSegments();
    at::Device device = ChooseDevice(place_.args.device, 0);
    if (cuda && machine.devices > 1) {
      ThrowInput("--device cuda with {} devices: jobs share one CUDA device; give the cluster one",
                 machine.devices);
    }
    for (int64_t d = 0; d < machine.devices; ++d)
      place_.fleet_devices.push_back(MakeFleetDevice(device));
    place_.peaks.assign(place_.fleet_devices.size(), 0);
    if (cuda) LimitMemory(device, machine.memory);
  }

  // Where jobs are saved: for the user, or only to go from shards to several devices.
  void MakeFolder() {
    place_.folder = place_.args.checkpoint;
    if (place_.folder.empty() && prepared_.several()) {
      passing_.emplace(place_.args.spill.empty() ? DiskFolder() : place_.args.spill);
      place_.folder = passing_->path();
    }
    if (!place_.folder.empty()) std::filesystem::create_directories(place_.folder);
  }

  // All of them are looked at before anything runs, and all that are refused are named.
  void MakeJobs() {
    std::string first, others;
    for (size_t j = 0; j < spec_.jobs.size(); ++j) {
      try {
        jobs_.push_back(std::make_unique<FleetJob>(place_, prepared_, spec_.jobs[j], j));
      } catch (const InputError& error) {
        if (first.empty()) {
          first = error.what();
        } else {
          others += fmt::format("{}{}", others.empty() ? "" : ", ", spec_.jobs[j].name);
        }
      }
    }
    if (first.empty()) return;
    ThrowInput("{}{}{}", first, others.empty() ? "" : "; refused too: ", others);
  }

  // ---- In shards.

  FleetRun RunShards() {
    std::vector<DispatchJob> jobs;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      DispatchJob job{&jobs_[j]->Shards(), StepsOf(j), spec_.jobs[j].priority, {}, false};
      for (const ShardRun& run : prepared_.works()[j].runs)
        job.visit_seconds.push_back(run.seconds);
      job.paused = Verdict(j) == HalvingVerdict::kWait;
      if (Verdict(j) == HalvingVerdict::kEnd) job.steps = jobs_[j]->first_step();
      jobs.push_back(std::move(job));
    }
    return Dispatch(jobs,
                    {.devices = static_cast<int>(place_.fleet_devices.size()),
                     .double_buffering = !place_.args.no_double_buffering,
                     .stop = &stopped_},
                    place_.policy, this);
  }

  // ---- On several devices.

  // What is left of a job after so many steps, by predicted times.
  JobWork Left(size_t j, int64_t steps) const {
    JobWork work = prepared_.works()[j];
    work.steps -= steps;
    return work;
  }

  // Is it better to leave shards now than later, or never? By the times that were measured.
  bool GoesWide(const FleetRun& so_far) {
    if (!prepared_.several() || goes_wide_) return false;
    std::vector<JobWork> works;
    std::vector<JobCurve> curves;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      const DispatchedJob& job = so_far.jobs[j];
      if (job.finished > 0 || Verdict(j) != HalvingVerdict::kGoOn || job.step >= StepsOf(j))
        continue;
      JobWork work = Left(j, job.step);
      double pace = job.remaining_seconds / TotalSeconds(work);
      for (ShardRun& run : work.runs) run.seconds *= pace;
      JobCurve curve = prepared_.PlannedOf(j).curve;
      bool begun = job.step > 0 || !job.records.empty();
      for (CurvePoint& point : curve.points) {
        point.seconds = point.seconds * pace * static_cast<double>(work.steps) +
                        (begun ? place_.args.switch_seconds : 0);
      }
      works.push_back(std::move(work));
      curves.push_back(std::move(curve));
    }
    if (works.empty()) return false;
    WideFleet wide =
        WidenFleet(works, prepared_.devices(), place_.policy, curves, place_.args.switch_seconds);
    goes_wide_ = wide.from == 0 && !wide.several.pieces.empty();
    return goes_wide_;
  }

  void RunSeveral(FleetRun& run) {
    std::vector<GangJob> gangs;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      jobs_[j]->LetGo();
      GangJob gang{.runner = jobs_[j].get(), .steps = StepsOf(j)};
      // As shards it was measured, if it ran so; plans for more devices are taken to be as far off.
      JobWork left = Left(j, run.jobs[j].step);
      double pace = left.steps > 0 ? run.jobs[j].remaining_seconds / TotalSeconds(left) : 1;
      gang.step = {spec_.jobs[j].name, {{1, StepSeconds(left) * pace}}};
      for (const CurvePoint& point : prepared_.PlannedOf(j).curve.points)
        gang.step.points.push_back({point.devices, point.seconds * pace});
      gang.paused = Verdict(j) == HalvingVerdict::kWait;
      // It had come to its end, or was told to end when it stood still already.
      bool over = left.steps <= 0 || Verdict(j) == HalvingVerdict::kEnd;
      if (over && run.jobs[j].finished == 0) {
        run.jobs[j].finished = std::max(run.seconds, 1e-9);
        run.jobs[j].ended_early = left.steps > 0;
      }
      gangs.push_back(std::move(gang));
    }
    RunGangs(gangs,
             {.devices = std::ssize(place_.fleet_devices),
              .switch_seconds = place_.args.switch_seconds,
              .stop = &fleet_interrupted},
             run, this);
  }

  HalvingVerdict Verdict(size_t j) const {
    return halving_ ? halving_->VerdictOf(static_cast<int>(j)) : HalvingVerdict::kGoOn;
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
            next > std::ssize(jobs_[j]->losses()) || next >= StepsOf(j))
          continue;
        halving_->Report(job, next, jobs_[j]->losses()[static_cast<size_t>(next - 1)]);
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

  const FleetSpec& spec_;
  const PreparedFleet& prepared_;
  FleetPlace place_;
  std::optional<PrivateFolder> passing_;  // gone with the run
  std::vector<std::unique_ptr<FleetJob>> jobs_;
  std::optional<Halving> halving_;
  std::optional<FleetTable> screen_;
  std::atomic<bool> stopped_ = false;  // shards
  bool goes_wide_ = false;
};

}  // namespace

void RunRealFleet(const FleetArgs& given) {
  FleetArgs args = given;
  if (args.deterministic && args.device != "cpu") UseDeterministicKernels();
  args.sim = SimOf(args.device);
  // Shards are cut for tensors. Copies that fused kernels do not make are counted: room for what an allocator that several
  // jobs share leaves unused between them.
  args.sim.stack.fused_loss = args.sim.fused_update = false;
  const PolicyDef& policy = PolicyOf(args);
  FleetSpec spec = JobsFromYaml(ReadFile(args.jobs, kMaxYamlBytes), args.jobs);
  FleetMachine machine = MachineOf(args, spec);
  std::optional<PreparedFleet> prepared;
  {
    Phases phases("fleet", 1);
    phases.Begin("cutting models");
    prepared.emplace(args, spec, machine, phases);
  }
  RealFleetRun run(args, spec, machine, *prepared, policy);
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
             args.checkpoint.empty() ? "" : ": the same command goes on from the last checkpoints");
  }
}

}  // namespace heddle
