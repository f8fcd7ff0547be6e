#include "cli/torch/fleet_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "cli/torch/checkpoint_args.h"
#include "cli/torch/private_folder.h"
#include "graph/safetensors.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "runtime/prune.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

// A name that any file system takes: "03-xl_batch=16".
std::string FolderOf(const std::string& folder, size_t job, const std::string& name) {
  std::string safe = fmt::format("{:02}-", job);
  for (char c : name)
    safe += std::isalnum(static_cast<unsigned char>(c)) || c == '=' || c == '.' ? c : '_';
  return (std::filesystem::path(folder) / safe).string();
}

// Visits of a job that stays on one device.
class OnOneDevice : public ShardRunner {
 public:
  OnOneDevice(ShardRunner& job, int device) : job_(job), device_(device) {}
  int visits() const override { return job_.visits(); }
  int64_t first_step() const override { return job_.first_step(); }
  void Prefetch(int visit, int) override { job_.Prefetch(visit, device_); }
  std::optional<StepRecord> Run(int64_t step, int visit, int) override {
    return job_.Run(step, visit, device_);
  }
  void Leave() override { job_.Leave(); }
  void Finish() override { job_.Finish(); }

 private:
  ShardRunner& job_;
  int device_;
};

struct StepsTo : FleetObserver {
  explicit StepsTo(const std::function<void(const StepRecord&)>& to) : on_step(to) {}
  void OnStep(int, const StepRecord& record, const FleetRun&, DispatchControl&) override {
    on_step(record);
  }
  void OnEnd(int, const FleetRun&, DispatchControl&) override {}
  const std::function<void(const StepRecord&)>& on_step;
};

}  // namespace

FleetJob::FleetJob(FleetPlace& place, const PreparedFleet& prepared, const JobSpec& spec,
                   size_t number)
    : place_(place), model_(prepared.model(number)) {
  try {
    auto seed = static_cast<uint64_t>(spec.seed);
    data_ = OpenData(model_.graph, {.path = DataOf(place.args.jobs, spec), .seed = seed});
    weights_ = MakeWeights(model_.graph, model_.rules, {.seed = seed});
    constants_ = MakeConstants(model_.graph, {});
    if (spec.sparsity > 0) MakeMask(weights_, spec.sparsity);
    auto lowered = [&](Plan plan) {
      if (mask_) plan.pruning = mask_->pruning();
      RequireSound(plan, model_, spec.name);
      return Lower(model_, plan, mask_.get());
    };
    Plan plan = prepared.PlanOf(number);
    program_ = lowered(plan);
    if (prepared.several()) {
      const PlannedCurve& planned = prepared.PlannedOf(number);
      for (size_t p = 0; p < planned.plans.size(); ++p)
        gangs_.push_back({planned.curve.points[p].devices, lowered(planned.plans[p])});
    }
    SetOptions(spec, prepared.works()[number].steps, number);
    std::string path = DataOf(place.args.jobs, spec);
    run_ = RunJson(model_, plan, options_, {spec.model, "model", path}, *data_);
    run_["job"] = spec.name;
    shards_ = MakeShardJob(Inputs(program_), options_, place_.fleet_devices, &losses_);
    first_step_ = shards_->first_step();
  } catch (const InputError& error) {
    ThrowInput("{}:{}: {}: {}", place.args.jobs, spec.line, spec.name, error.what());
  }
}

void FleetJob::MakeMask(const WeightSource& weights, double sparsity) {
  auto masks = MakeMasks(model_, weights, {.sparsity = sparsity});
  std::vector<NamedTensor> named;
  for (const auto& [name, mask] : masks) named.push_back({name, &mask});
  PrivateFolder folder(DiskFolder());
  std::string path = folder / "mask";
  WriteSafetensors(path, named);
  mask_ = std::make_unique<Mask>(Mask::Open(path, model_));
}

void FleetJob::SetOptions(const JobSpec& spec, int64_t steps, size_t number) {
  options_.steps = steps;
  options_.seed = static_cast<uint64_t>(spec.seed);
  options_.optimizer.name = spec.optimizer;
  options_.optimizer.lr = options_.lr.lr = spec.lr;
  options_.optimizer.weight_decay = spec.weight_decay;
  options_.optimizer.momentum = spec.momentum;
  auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  int64_t each = std::max<int64_t>(1, cores / std::ssize(place_.fleet_devices));
  options_.threads = static_cast<int>(place_.args.threads > 0 ? place_.args.threads : each);
  options_.mask = mask_.get();
  if (!place_.budget.folder.empty()) options_.host = &place_.budget;
  if (place_.folder.empty()) return;
  std::string folder = FolderOf(place_.folder, number, spec.name);
  // Without checkpoints of the user's it is saved only to go from shards to several devices, or to others.
  int64_t every =
      place_.args.checkpoint.empty() ? std::numeric_limits<int64_t>::max() : place_.args.every;
  options_.checkpoint = {.folder = folder,
                         .every = every,
                         .keep = 2,
                         .resume = true,
                         .override_settings = place_.args.override_settings,
                         .keep_losses = true};
}

TrainInputs FleetJob::Inputs(const Program& program) const {
  return {program, weights_, constants_, *data_, run_};
}

ShardRunner& FleetJob::Shards() {
  if (!shards_) shards_ = MakeShardJob(Inputs(program_), options_, place_.fleet_devices);
  return *shards_;
}

void FleetJob::RunAlone(int64_t fleet_device, const std::atomic<bool>& stop,
                        const std::function<void(const StepRecord&)>& on_step) {
  OnOneDevice here(Shards(), static_cast<int>(device));
  StepsTo observer(on_step);
  FleetRun run = Dispatch({{.runner = &here, .steps = options_.steps}},
                          {.double_buffering = !place_.args.no_double_buffering, .stop = &stop},
                          place_.policy, &observer);
  LetGo();
  if (!run.jobs[0].error.empty()) ThrowRun("{}", run.jobs[0].error);
}

void FleetJob::Run(int64_t first, int64_t devices, const std::atomic<bool>& stop,
                   const std::function<void(const StepRecord&)>& on_step) {
  LetGo();  // what stood still when shards did
  if (devices == 1) return RunAlone(first, stop, on_step);
  auto at = std::find_if(gangs_.begin(), gangs_.end(),
                         [&](const auto& gang) { return gang.first == devices; });
  HEDDLE_CHECK(at != gangs_.end(), "no plan for {} devices", devices);
  TrainOptions options = options_;
  options.stop = &stop;
  const Program& program = at->second;
  RunRanks(static_cast<int>(program.device_count()), [&](Transport& transport) {
    TrainSummary summary = TrainDevice(Inputs(program), options, transport, on_step);
    if (transport.rank() != 0) return;
    if (!summary.not_saved.empty()) ThrowRun("{}", summary.not_saved);
    for (size_t r = 0; r < summary.devices.size(); ++r) {
      int64_t& peak = place_.peaks[static_cast<size_t>(first) + r];
      peak = std::max(peak, summary.devices[r].peak_memory_bytes);
    }
  });
}

}  // namespace heddle
