#include "fleet/prepared_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "fleet/widen.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"

namespace heddle {
namespace {

constexpr int kCuts = 12;
constexpr int64_t kSomeSteps = 50;
constexpr double kWorthKeeping =
    0.99;  // the makespan must fall to this fraction to keep more on the host

}  // namespace

FleetMachine MachineOf(const FleetOptions& options, const FleetSpec& spec) {
  std::string name = options.cluster.empty() ? spec.cluster : options.cluster;
  if (name.empty()) {
    ThrowInput("{}: cluster: missing: give one, such as 'dgx-v100:1', or --cluster", options.jobs);
  }
  FleetMachine out;
  out.cluster = LoadCluster(name);
  if (out.cluster.device_types.size() > 1) {
    ThrowInput("cluster {}: it has {} kinds of devices: a fleet needs devices of one kind", name,
               out.cluster.device_types.size());
  }
  out.type = out.cluster.device_types.front();
  if (!out.type.host.exists()) {
    ThrowInput("cluster {}: device '{}' has no link to its host, where shards are kept", name,
               out.type.name);
  }
  out.devices = DeviceCount(out.cluster);
  if (spec.devices > out.devices) {
    ThrowInput("{}: devices: {}: the cluster {} has only {}", options.jobs, spec.devices, name,
               out.devices);
  }
  if (spec.devices > 0) out.devices = spec.devices;
  out.memory =
      static_cast<int64_t>(static_cast<double>(out.type.memory.value) * (1 - options.reserve));
  if (options.memory_limit > 0) out.memory = options.memory_limit;
  GroupSpan node = NodeOf(out.cluster, DeviceId{0});
  if (out.devices > node.count) {
    ThrowInput(
        "{}: {} devices on several machines: shards are kept in the memory of one machine, which "
        "has {}; give devices: {}",
        options.jobs, out.devices, node.count, node.count);
  }
  out.host_limit =
      spec.host_memory > 0 ? spec.host_memory : out.cluster.group(node.group).host_memory.value;
  return out;
}

std::string DataOf(const std::string& file, const JobSpec& job) {
  if (job.data.empty()) return "";
  std::filesystem::path path(job.data);
  if (path.is_relative()) path = std::filesystem::path(file).parent_path() / path;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    ThrowInput("{}:{}: {}: data: {}: no such file", file, job.line, job.name, job.data);
  }
  return path.string();
}

PreparedFleet::PreparedFleet(const FleetOptions& options, const FleetSpec& spec,
                             const FleetMachine& machine, const JobModelLoader& load,
                             const std::function<void(const std::string& what)>& progress)
    : options_(options), spec_(spec), machine_(machine) {
  for (const JobSpec& job : spec.jobs) DataOf(options.jobs, job);
  for (const JobSpec& job : spec.jobs) {
    auto key = std::tuple(job.model, job.batch, job.optimizer, job.precision, job.sparsity);
    auto [at, fresh] = kinds_.try_emplace(key);
    if (fresh) {
      progress(fmt::format("pricing {}", job.name));
      at->second.model = load(job);
      const Model& model = at->second.model;
      ModelCostOptions costs{.precision = job.precision, .optimizer = job.optimizer};
      costs.pruning.sparsity = job.sparsity;
      costs.sim = options.sim;
      at->second.batch = std::max<int64_t>(1, BatchSize(model));
      at->second.costs = FindModelCosts(model, machine.cluster, costs);
    }
    of_job_.push_back(&at->second);
  }
  Cut();
  several_ = options.several.value_or(std::ssize(spec.jobs) < machine.devices);
  if (several_) FindCurves(progress);
}

FleetDevices PreparedFleet::devices() const {
  return {.devices = machine_.devices,
          .host_bandwidth = machine_.type.host.bandwidth,
          .host_latency = machine_.type.host.latency,
          .double_buffering = options_.double_buffering};
}

// The most bytes that a visit of any job touches, and the number of that job.
std::pair<int64_t, int> PreparedFleet::MostOfAll() const {
  std::pair<int64_t, int> most = {0, 0};
  std::set<const ModelKind*> seen;
  for (size_t j = 0; j < of_job_.size(); ++j) {
    if (!seen.insert(of_job_[j]).second) continue;
    for (int64_t peak : ShardPeaks(Lower(model(j), PlanOf(j)), HabitsOf(options_.sim)))
      if (peak > most.first) most = {peak, static_cast<int>(j)};
  }
  return most;
}

std::vector<int> PreparedFleet::BlockEnds(size_t job) const {
  std::vector<int> ends;
  for (int end : shards_.ends[job])
    ends.push_back(of_job_[job]->costs.block_ends[static_cast<size_t>(end) - 1]);
  return ends;
}

Plan PreparedFleet::PlanOf(size_t job) const {
  const Model& of = model(job);
  const JobSpec& spec = spec_.jobs[job];
  Plan plan = ExpertPlan(of, machine_.cluster,
                         {.precision = spec.precision, .local_batch_statistics = true});
  plan.offload = Offload::kAll;
  SetOptimizer(plan, spec.optimizer);
  plan.prefetch = 0;  // the caller of the shard chooses the next one
  Stage& stage = plan.stages[0];
  std::vector<int> ends = BlockEnds(job);
  stage.shard_starts.assign(ends.begin(), ends.end() - 1);
  const ModelCosts& costs = of_job_[job]->costs;
  for (size_t b = 0, unit = 0; b < stage.recompute.size(); ++b) {
    if (static_cast<int>(b) == costs.block_ends[unit]) ++unit;
    bool last = ShardOf(stage, static_cast<int>(b)) + 1 == ShardCount(stage);
    stage.recompute[b] =
        last || costs.keeps[unit] ? RecomputePolicy::kNone : RecomputePolicy::kFull;
  }
  return plan;
}

// Searches for plans on 2, 4, ... devices.
void PreparedFleet::FindCurves(const std::function<void(const std::string& what)>& progress) {
  for (size_t j = 0; j < works_.size(); ++j) {
    ModelKind& kind = *of_job_[j];
    if (!kind.curve) {
      progress(fmt::format("planning {} for several devices", works_[j].name));
      Pruning pruning;
      pruning.sparsity = spec_.jobs[j].sparsity;
      kind.curve = FindCurve(kind.model, machine_.cluster,
                             {.optimizer = spec_.jobs[j].optimizer,
                              .pruning = pruning,
                              .local_batch_statistics = false,
                              .memory_limit = machine_.memory,
                              .sim = options_.sim,
                              .precision = spec_.jobs[j].precision,
                              .least_devices = 2,
                              .most_devices = machine_.devices});
    }
    curves_.push_back(kind.curve->curve);
    for (CurvePoint& point : curves_.back().points) {
      point.seconds *= static_cast<double>(works_[j].steps);
    }
  }
}

// Cuts the models into shards and fills their work.
void PreparedFleet::CutAsPriced(Cuts& out) {
  std::vector<const ModelCosts*> models;
  for (const ModelKind* kind : of_job_) models.push_back(&kind->costs);
  // Estimated shards are checked against the programs that run. If these need more memory, shards are cut for less.
  int64_t memory = machine_.memory;
  for (int tries = 0; tries < kCuts; ++tries) {
    shards_ = CutFleet(models, memory);
    if (!shards_.feasible) break;
    auto [most, job] = MostOfAll();
    int64_t more = most + shards_.buffer - machine_.memory;
    if (more <= 0) break;
    memory -= std::max(more, memory / 64);
    shards_.feasible = false;
    shards_.needed = machine_.memory + more;
    shards_.worst = job;
  }
  out.shards = shards_;
  if (!shards_.feasible) return;
  for (size_t j = 0; j < models.size(); ++j) {
    JobWork work = WorkOf(*models[j], shards_.ends[j]);
    work.name = spec_.jobs[j].name;
    work.steps = StepsOf(spec_.jobs[j], of_job_[j]->batch);
    work.priority = spec_.jobs[j].priority;
    out.works.push_back(std::move(work));
  }
  // Simulating a few steps of each job is enough.
  std::vector<JobWork> some = out.works;
  for (JobWork& work : some) work.steps = std::min(work.steps, kSomeSteps);
  out.makespan = SimulateFleet(some, devices(), AllPolicies().front()).makespan;
}

// Shards before the last one recompute, or keep activations for backward on the host: all of them, or only those that
// are copied fast. Of the variants that fit in host memory, the one with the shortest simulated makespan is used.
void PreparedFleet::Cut() {
  std::map<ModelKind*, ModelCosts> priced;
  for (ModelKind* kind : of_job_) priced.emplace(kind, kind->costs);
  Cuts best;
  std::map<ModelKind*, ModelCosts> chosen = priced;
  CutAsPriced(best);
  for (double most_copying : {0.5, 1.0, std::numeric_limits<double>::infinity()}) {
    for (auto& [kind, costs] : priced)
      kind->costs = KeepOnHost(costs, machine_.type.host.bandwidth, most_copying);
    Cuts cuts;
    CutAsPriced(cuts);
    bool fits = cuts.shards.feasible && FitsHost(cuts.works);
    if (!fits || (best.shards.feasible && cuts.makespan >= best.makespan * kWorthKeeping)) continue;
    best = std::move(cuts);
    for (auto& [kind, costs] : chosen) costs = kind->costs;
  }
  for (auto& [kind, costs] : chosen) kind->costs = costs;
  shards_ = std::move(best.shards);
  works_ = std::move(best.works);
  if (!shards_.feasible) {
    throw Infeasible(fmt::format(
        "job '{}' does not fit on a device: its largest shard and the buffer for the next one need "
        "{}, a {} has {} for them, {} too little; use a smaller batch or another device",
        spec_.jobs[static_cast<size_t>(shards_.worst)].name, FormatBytes(Bytes{shards_.needed}),
        machine_.type.name, FormatBytes(Bytes{machine_.memory}),
        FormatBytes(Bytes{std::max<int64_t>(0, shards_.needed - machine_.memory)})));
  }
  for (const JobWork& work : works_) host_bytes_ += work.host_bytes;
  if (!FitsHost(works_) && options_.spill.empty()) {
    throw Infeasible(fmt::format(
        "the jobs need {} of host memory, but there is only {}, {} too little; give --spill a "
        "folder for memory-mapped files",
        FormatBytes(Bytes{host_bytes_}), FormatBytes(Bytes{machine_.host_limit}),
        FormatBytes(Bytes{host_bytes_ - machine_.host_limit})));
  }
}

bool PreparedFleet::FitsHost(const std::vector<JobWork>& works) const {
  int64_t bytes = 0;
  for (const JobWork& work : works) bytes += work.host_bytes;
  return machine_.host_limit == 0 || bytes <= machine_.host_limit;
}

}  // namespace heddle
