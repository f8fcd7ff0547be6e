#include "cli/plan_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "cli/option_types.h"
#include "cluster/topology.h"
#include "frontend/load.h"
#include "ops/rebatch.h"
#include "plan/axes.h"
#include "plan/plan_file.h"
#include "plan/precision.h"
#include "schedule/schedule.h"

namespace heddle {
namespace {

constexpr int64_t kMostDegree = 1 << 20;  // more than the devices of any cluster

std::string OptionOf(std::string_view name) { return fmt::format("--{}", name); }

size_t Choice(std::string_view option, const std::string& name,
              std::span<const std::string_view> names) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) ThrowInput("{} {}: {}", option, name, DidYouMean(name, names));
  return static_cast<size_t>(found - names.begin());
}

void CheckSchedule(const Degrees& degrees) {
  const ScheduleDef* schedule = FindSchedule(degrees.schedule);
  if (schedule == nullptr) {
    std::vector<std::string_view> names;
    for (const ScheduleDef& def : AllSchedules()) names.push_back(def.name);
    ThrowInput("--schedule {}: {}", degrees.schedule, DidYouMean(degrees.schedule, names));
  }
  constexpr int64_t kMany = 1 << 20;  // larger values are rejected elsewhere
  CheckShape(*schedule, {.devices = static_cast<int>(std::min(degrees.pp, kMany)),
                         .chunks = degrees.chunks,
                         .microbatches = static_cast<int>(std::min(degrees.microbatches, kMany))});
}

// Throws if there are no numbers of stages and micro-batches that the schedule accepts with these chunks.
void CheckFixed(const FixedDegrees& fixed) {
  if (!fixed.schedule && !fixed.chunks) return;
  Degrees any;
  any.schedule = fixed.schedule.value_or(any.schedule);
  any.chunks = fixed.chunks.value_or(1);
  any.pp = fixed.pp.value_or(1);
  any.microbatches = fixed.microbatches.value_or(any.pp);
  CheckSchedule(any);
}

// The largest data parallel degree that the devices allow: a divisor of a micro-batch's samples and a multiple of ep.
int64_t DataRanks(const Degrees& degrees, int64_t batch, int64_t devices) {
  int64_t left = devices / DevicesOf(degrees);
  int64_t samples = std::max<int64_t>(1, batch / degrees.microbatches);
  for (int64_t dp = std::min(left, samples); dp > 1; --dp) {
    if (samples % dp == 0 && dp % degrees.ep == 0) return dp;
  }
  return 1;
}

}  // namespace

void DegreeArgs::Add(CLI::App& command) {
  auto degree = [&](const std::string& name, int64_t& value, std::string_view about) {
    return command.add_option(name, value, std::string(about))
        ->transform(IntegerIn(1, kMostDegree));
  };
  for (const ParallelAxis& axis : AllAxes()) {
    if (!axis.is_degree()) continue;
    given_.push_back(degree(OptionOf(axis.name), degrees.*axis.degree, axis.help));
    if (axis.role == AxisRole::kReplicatedData) dp_ = given_.back();
  }
  size_t first = command.get_options().size();
  for (const AxisModifier& modifier : AllAxisModifiers()) {
    command.add_flag(OptionOf(modifier.name), degrees.*modifier.flag, std::string(modifier.help));
  }
  std::string schedules;
  for (const ScheduleDef& def : AllSchedules()) schedules += fmt::format(" {}", def.name);
  command.add_option("--schedule", degrees.schedule, "pipeline schedule:" + schedules);
  command.add_option("--chunks", degrees.chunks, "stages per device of an interleaved pipeline")
      ->transform(IntegerIn(1, kMostDegree));
  command
      .add_option("--microbatches", degrees.microbatches,
                  "number of micro-batches that a batch is divided into")
      ->transform(IntegerIn(1, int64_t{1} << 40));
  command.add_option("--zero", degrees.zero, ZeroHelp())->transform(IntegerIn(0, kMostZero));
  command.add_option("--recompute", recompute, RecomputeHelp());
  command
      .add_option(
          "--shares", shares,
          "relative numbers of samples of the data ranks, such as 3,1 for --dp 2 (default: equal)")
      ->delimiter(',')
      ->transform(IntegerIn(1, int64_t{1} << 30));
  command.add_option("--offload", offload, OffloadHelp());
  command.add_option("--sync", sync, SyncHelp());
  command
      .add_option("--precision", precision,
                  "compute type: f32, bf16, f16, fp8 (bf16 with matrix products in fp8), or auto: "
                  "bf16 if that is faster than f32 on the devices, else f16 if that is, else f32")
      ->capture_default_str();
  command
      .add_option("--batch-statistics", statistics,
                  "global: of the whole batch, as on one device; local: each micro-batch and data "
                  "shard has its own, which changes the result")
      ->capture_default_str();
  std::vector<CLI::Option*> all = command.get_options();
  others_.assign(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
}

std::string DegreeArgs::FirstGiven() const {
  for (const auto* list : {&given_, &others_}) {
    for (const CLI::Option* option : *list) {
      if (option->count() > 0) return option->get_name();
    }
  }
  return "";
}

bool DegreeArgs::Given() const {
  return std::any_of(given_.begin(), given_.end(),
                     [](const CLI::Option* o) { return o->count() > 0; });
}

bool DegreeArgs::IsGiven(std::string_view name) const {
  for (const auto* list : {&given_, &others_}) {
    for (const CLI::Option* option : *list) {
      if (option->check_name(std::string(name)) && option->count() > 0) return true;
    }
  }
  return false;
}

std::string DegreeArgs::FirstOfExpert() const {
  std::vector<std::string> options;
  for (const ParallelAxis& axis : AllAxes()) {
    if (axis.is_degree() && !axis.searched) options.push_back(OptionOf(axis.name));
  }
  for (const AxisModifier& modifier : AllAxisModifiers()) {
    options.push_back(OptionOf(modifier.name));
  }
  options.insert(options.end(), {"--shares", "--sync"});
  auto given = std::find_if(options.begin(), options.end(),
                            [&](const std::string& name) { return IsGiven(name); });
  return given == options.end() ? "" : *given;
}

NamedPrecision DegreeArgs::PrecisionFor(const Cluster& cluster) const {
  std::vector<std::string_view> names = {"auto"};
  for (const NamedPrecision& named : kPrecisions) names.push_back(named.name);
  size_t chosen = Choice("--precision", precision, names);
  if (chosen > 0) return kPrecisions[chosen - 1];
  // Weights that are updated shard by shard do not support loss scaling, so f16 is excluded.
  NamedPrecision fastest = FastestPrecision(cluster);
  return fastest.compute == DType::kF16 && offload == "all" ? kPrecisions[0] : fastest;
}

bool DegreeArgs::LocalStatistics() const {
  constexpr std::string_view kStatistics[] = {"global", "local"};
  return Choice("--batch-statistics", statistics, kStatistics) == 1;
}

FixedDegrees DegreeArgs::Fixed() const {
  FixedDegrees fixed;
  DevicesOf(degrees);  // checks that all degrees are at least 1
  for (const ParallelAxis& axis : AllAxes()) {
    if (!axis.is_degree() || !axis.searched || !IsGiven(OptionOf(axis.name))) continue;
    FixedDegree(fixed, axis.role) = degrees.*axis.degree;
  }
  if (IsGiven("--microbatches")) fixed.microbatches = degrees.microbatches;
  if (IsGiven("--zero")) fixed.zero = degrees.zero;
  if (IsGiven("--chunks")) fixed.chunks = degrees.chunks;
  if (IsGiven("--schedule")) fixed.schedule = degrees.schedule;
  CheckFixed(fixed);
  size_t policy = Choice("--recompute", recompute, kRecomputeNames);
  if (IsGiven("--recompute")) fixed.recompute = static_cast<RecomputePolicy>(policy);
  size_t offloaded = Choice("--offload", offload, kOffloadNames);
  if (IsGiven("--offload")) fixed.offload = static_cast<Offload>(offloaded);
  return fixed;
}

Degrees DegreeArgs::Resolve(const Model& model, const Cluster& cluster) const {
  Degrees resolved = degrees;
  resolved.recompute =
      static_cast<RecomputePolicy>(Choice("--recompute", recompute, kRecomputeNames));
  resolved.shares = shares;
  resolved.offload = static_cast<Offload>(Choice("--offload", offload, kOffloadNames));
  std::vector<std::string_view> syncs(kGradientSyncNames.begin(), kGradientSyncNames.end());
  syncs.push_back("auto");  // ChoosesSync
  size_t chosen_sync = Choice("--sync", sync, syncs);
  if (!ChoosesSync()) resolved.sync = static_cast<GradientSync>(chosen_sync);
  NamedPrecision chosen = PrecisionFor(cluster);
  resolved.precision = chosen.compute;
  resolved.products = chosen.products;
  resolved.local_batch_statistics = LocalStatistics();
  DevicesOf(resolved);  // checks that all degrees are at least 1
  CheckSchedule(resolved);
  if (dp_->count() == 0) resolved.dp = DataRanks(resolved, BatchSize(model), DeviceCount(cluster));
  return resolved;
}

Model AnalyseToTrain(Graph graph, const std::string& source) {
  Model model = Analyse(std::move(graph));
  if (!model.flow.needed[model.graph.outputs.front().index()]) {
    ThrowInput(
        "{}: the loss does not depend on any trained parameter, so there is nothing to train; "
        "freeze fewer parameters (--frozen)",
        source);
  }
  return model;
}

ModelRef RefOf(const ModelArgs& args, const std::string& plan_path) {
  ImportOptions options = args.Options();
  ModelRef ref;
  ref.source = args.model;
  ref.fused = options.fuse;
  ref.dims.insert(options.dims.begin(), options.dims.end());
  ref.frozen = options.frozen;
  if (IsModelFile(args.model) && !plan_path.empty()) {
    std::filesystem::path folder = std::filesystem::absolute(plan_path).parent_path();
    ref.source = std::filesystem::absolute(args.model)
                     .lexically_normal()
                     .lexically_proximate(folder.lexically_normal())
                     .string();
  }
  return ref;
}

LoadedPlan LoadPlan(const std::string& path, const std::string& model) {
  Json json = ParseJson(ReadFile(path, kMaxJsonBytes), path);
  PlanHeader header = ReadPlanHeader(json, path);
  std::string source = model.empty() ? header.model.source : model;
  if (model.empty()) {
    std::filesystem::path beside = std::filesystem::path(path).parent_path() / source;
    if (std::string file = beside.lexically_normal().string(); IsModelFile(file)) source = file;
  }
  ImportOptions options;
  options.fuse = header.model.fused;
  options.frozen = header.model.frozen;
  options.dims.insert(header.model.dims.begin(), header.model.dims.end());
  Graph graph = LoadModel(source, options);
  if (StableHash(graph) != header.model.hash) {
    try {
      graph = Rebatch(graph, header.batch);
    } catch (const InputError& error) {
      ThrowInput("{}: batch: {}: {}: {}", path, header.batch, source, error.what());
    }
  }
  LoadedPlan loaded;
  loaded.model = AnalyseToTrain(std::move(graph), source);
  loaded.plan = FromJson(json, loaded.model, path);
  return loaded;
}

}  // namespace heddle
