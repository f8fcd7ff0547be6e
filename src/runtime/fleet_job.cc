#include "runtime/fleet_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "graph/safetensors.h"
#include "host/supervisor/private_folder.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "runtime/checkpoint/run_json.h"
#include "runtime/prune.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

// A folder name that every file system accepts: "03-xl_batch=16".
std::string FolderOf(const std::string& folder, size_t job, const std::string& name) {
  std::string safe = fmt::format("{:02}-", job);
  for (char c : name)
    safe += std::isalnum(static_cast<unsigned char>(c)) || c == '=' || c == '.' ? c : '_';
  return (std::filesystem::path(folder) / safe).string();
}

}  // namespace

FleetJob::FleetJob(FleetPlace& place, FleetJobSpec spec)
    : place_(place), model_(*spec.model), options_(std::move(spec.options)) {
  uint64_t seed = options_.seed;
  data_ = OpenData(model_.graph, {.path = spec.data, .seed = seed});
  weights_ = MakeWeights(model_.graph, model_.rules, {.seed = seed});
  constants_ = MakeConstants(model_.graph, {});
  if (spec.sparsity > 0) MakeMask(spec.sparsity);
  auto lowered = [&](Plan plan) {
    if (mask_) plan.pruning = mask_->pruning();
    RequireSound(plan, model_, spec.name);
    return Lower(model_, plan, mask_.get());
  };
  program_ = lowered(spec.shards);
  for (const auto& [devices, plan] : spec.gangs) gangs_.push_back({devices, lowered(plan)});
  SetOptions(spec);
  run_ = RunJson(model_, spec.shards, options_, {spec.source, "model", spec.data}, *data_);
  run_["job"] = spec.name;
  shards_ = MakeShardJob(Inputs(program_), options_, place_.fleet_devices, &losses_);
  first_step_ = shards_->first_step();
}

void FleetJob::MakeMask(double sparsity) {
  auto masks = MakeMasks(model_, weights_, {.sparsity = sparsity});
  std::vector<NamedTensor> named;
  for (const auto& [name, mask] : masks) named.push_back({name, &mask});
  PrivateFolder folder(DiskFolder());
  std::string path = folder / "mask";
  WriteSafetensors(path, named);
  mask_ = std::make_unique<Mask>(Mask::Open(path, model_));
}

void FleetJob::SetOptions(const FleetJobSpec& spec) {
  options_.lr.lr = options_.optimizer.lr;
  auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  int64_t each = std::max<int64_t>(1, cores / std::ssize(place_.fleet_devices));
  options_.threads = static_cast<int>(place_.threads > 0 ? place_.threads : each);
  options_.mask = mask_.get();
  if (!place_.budget.folder.empty()) options_.host = &place_.budget;
  if (place_.folder.empty()) return;
  options_.checkpoint = {.folder = FolderOf(place_.folder, spec.number, spec.name),
                         .every = place_.save_every,
                         .keep = 2,
                         .resume = true,
                         .override_settings = place_.override_settings,
                         .keep_losses = true};
}

TrainInputs FleetJob::Inputs(const Program& program) const {
  return {program, weights_, constants_, *data_, run_};
}

ShardRunner& FleetJob::Shards() {
  if (!shards_) shards_ = MakeShardJob(Inputs(program_), options_, place_.fleet_devices);
  return *shards_;
}

void FleetJob::Run(int64_t first, int64_t devices, const std::atomic<bool>& stop,
                   const std::function<void(const StepRecord&)>& on_step) {
  LetGo();  // the job in shards, if it was left in the middle of a step
  if (devices == 1) {
    place_.run_shards(Shards(), first, options_.steps, stop, on_step);
    return LetGo();
  }
  auto at = std::find_if(gangs_.begin(), gangs_.end(),
                         [&](const auto& gang) { return gang.first == devices; });
  HEDDLE_CHECK(at != gangs_.end(), "no plan for {} devices", devices);
  TrainOptions options = options_;
  options.stop = &stop;
  const Program& program = at->second;
  RunRanks(static_cast<int>(program.device_count()), [&](Transport& transport) {
    TrainSummary summary = TrainDevice(Inputs(program), options, transport, on_step);
    if (transport.rank() != 0) return;
    if (!summary.saving.not_saved.empty()) ThrowRun("{}", summary.saving.not_saved);
    for (size_t r = 0; r < summary.devices.size(); ++r) {
      int64_t& peak = place_.peaks[static_cast<size_t>(first) + r];
      peak = std::max(peak, summary.devices[r].peak_memory_bytes);
    }
  });
}

}  // namespace heddle
