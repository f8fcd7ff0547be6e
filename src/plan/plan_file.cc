#include "plan/plan_file.h"

#include <fmt/format.h>

#include <charconv>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "base/integers.h"
#include "base/json_fields.h"
#include "base/nearest.h"
#include "cluster/yaml.h"
#include "plan/plan_strategies.h"
#include "plan/verify.h"

namespace heddle {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 40;
constexpr std::string_view kPlanKeys[] = {
    "heddle_plan", "model",        "batch",     "microbatches",   "batch_statistics",
    "schedule",    "chunks",       "precision", "optimizer",      "zero",
    "offload",     "bucket_bytes", "prefetch",  "search_stopped", "stages",
    "cluster",     "pruning"};
constexpr std::string_view kModelKeys[] = {"source", "hash", "fused", "dims", "frozen"};
constexpr std::string_view kPrecisionKeys[] = {"compute", "gradients", "master", "moments",
                                               "products"};
constexpr std::string_view kPruningKeys[] = {"sparsity", "kept"};
constexpr std::string_view kZeroKeys[] = {"level", "axes"};
constexpr std::string_view kTimesKeys[] = {"forward", "backward", "weight"};
constexpr std::string_view kStageKeys[] = {"blocks", "devices",    "mesh", "recompute",
                                           "times",  "strategies", "sync", "shard_starts"};
// All but the first, which is the default.
constexpr std::span<const std::string_view> kSyncKeys = std::span(kGradientSyncNames).subspan(1);
constexpr std::string_view kStatistics[] = {"global", "local"};
constexpr std::string_view kTypeNames[] = {"f32", "bf16", "f16"};
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

Json ModelToJson(const ModelRef& model) {
  Json json;
  json["source"] = model.source;
  json["hash"] = HashToHex(model.hash);
  json["fused"] = model.fused;
  if (!model.dims.empty()) json["dims"] = model.dims;
  if (!model.frozen.empty()) json["frozen"] = model.frozen;
  return json;
}

Json PrecisionToJson(const Precision& precision) {
  Json json = {{"compute", Name(precision.compute)},
               {"gradients", Name(precision.gradients)},
               {"master", Name(precision.master)},
               {"moments", Name(precision.moments)}};
  if (precision.products != Products::kAsCompute)
    json["products"] = kProductNames[static_cast<size_t>(precision.products)];
  return json;
}

// The weights kept of each parameter are listed only where they are not the same share of all parameters.
Json PruningToJson(const Pruning& pruning, const Model& model) {
  Json json = {{"sparsity", pruning.sparsity}};
  if (pruning != PruneAll(model, pruning.sparsity)) json["kept"] = pruning.kept;
  return json;
}

Json RecomputeToJson(const std::vector<RecomputePolicy>& recompute) {
  Json list = Json::array();
  for (RecomputePolicy policy : recompute) list.push_back(Name(policy));
  bool same =
      std::all_of(list.begin(), list.end(), [&](const Json& name) { return name == list[0]; });
  return same ? list[0] : list;
}

// The names of the parameters of each kind, but those whose gradients are reduced.
Json SyncToJson(const Stage& stage, const Model& model) {
  Json json = Json::object();
  for (auto [id, sync] : stage.sync) {
    if (sync == GradientSync::kReduce) continue;
    json[std::string(Name(sync))].push_back(model.graph.value(id).name);
  }
  return json;
}

Json StageToJson(const Stage& stage, const Model& model, StrategyWriter& strategies) {
  Json json;
  json["blocks"] = {stage.first_block, stage.last_block - 1};
  json["devices"] = DevicesToJson(stage.mesh);
  json["mesh"] = Json::object();
  for (const MeshAxis& axis : stage.mesh.axes) {
    json["mesh"][axis.name] = axis.shares.empty() ? Json(axis.size) : Json(axis.shares);
  }
  json["recompute"] = RecomputeToJson(stage.recompute);
  if (!stage.shard_starts.empty()) json["shard_starts"] = stage.shard_starts;
  json["times"] = {{"forward", stage.times.forward},
                   {"backward", stage.times.backward},
                   {"weight", stage.times.weight}};
  Json sync = SyncToJson(stage, model);
  if (!sync.empty()) json["sync"] = std::move(sync);
  json["strategies"] = strategies.Write(stage);
  return json;
}

uint64_t ReadHash(const JsonFields& fields) {
  std::string text = fields.Text("hash");
  uint64_t hash = 0;
  const char* end = text.data() + text.size();
  if (text.size() != 16 || std::from_chars(text.data(), end, hash, 16).ptr != end) {
    fields.Refuse("hash", "expected 16 hexadecimal digits");
  }
  return hash;
}

ModelRef ReadModel(const Json& json, std::string_view file) {
  JsonFields fields(json, file, "model", kModelKeys);
  ModelRef model;
  if (!fields.At("source").is_string())
    fields.Refuse("source", "expected a path or a built-in model");
  model.source = fields.At("source").get<std::string>();
  model.hash = ReadHash(fields);
  model.fused = fields.Bool("fused");
  if (fields.Has("dims")) {
    JsonFields dims(fields.At("dims"), file, "model.dims", {});
    for (const auto& [name, size] : fields.At("dims").items())
      model.dims[name] = dims.Int(name, 1, kMaxCount);
  }
  if (fields.Has("frozen")) model.frozen = fields.Texts("frozen");
  return model;
}

Precision ReadPrecision(const Json& json, std::string_view file) {
  JsonFields fields(json, file, "precision", kPrecisionKeys);
  auto read = [&](std::string_view key) { return kTypes[fields.Choice(key, kTypeNames)]; };
  Precision precision{read("compute"), read("gradients"), read("master"), read("moments")};
  if (fields.Has("products"))
    precision.products = static_cast<Products>(fields.Choice("products", kProductNames));
  return precision;
}

Pruning ReadPruning(const Json& json, const Model& model, std::string_view file) {
  JsonFields fields(json, file, "pruning", kPruningKeys);
  double sparsity = fields.Number("sparsity");
  if (!(sparsity > 0 && sparsity < 1)) fields.Refuse("sparsity", "expected 0 to 1, without them");
  if (!fields.Has("kept")) return PruneAll(model, sparsity);
  Pruning pruning{sparsity, {}};
  JsonFields kept(fields.At("kept"), file, "pruning.kept", {});
  for (const auto& [name, count] : fields.At("kept").items()) {
    pruning.kept[name] = kept.Int(name, 1, INT64_MAX);
  }
  return pruning;
}

Zero ReadZero(const Json& json, std::string_view file) {
  JsonFields fields(json, file, "zero", kZeroKeys);
  return {ToInt(fields.Int("level", 0, 3)), fields.Texts("axes")};
}

// An axis as the shares of its devices: [3, 1].
MeshAxis ReadShares(const JsonFields& mesh, const std::string& name, int64_t count) {
  MeshAxis axis{name, static_cast<int64_t>(mesh.At(name).size())};
  if (axis.size < 1 || axis.size > count) {
    mesh.Refuse(name, fmt::format("{} shares for a stage of {} devices", axis.size, count));
  }
  for (const Json& share : mesh.At(name)) {
    if (!share.is_number_integer()) mesh.Refuse(name, "a share is a whole number of samples");
    axis.shares.push_back(share.get<int64_t>());
  }
  return axis;
}

// [0, 7], or, where they are not one run, [[0, 3], [8, 11]].
std::vector<int64_t> ReadDevices(const JsonFields& stage) {
  std::vector<int64_t> devices;
  for (const auto& [first, last] : stage.Ranges("devices", kMaxDevices - 1)) {
    if (!devices.empty() && first <= devices.back()) {
      stage.Refuse("devices", "ranges must ascend and have nothing in common");
    }
    for (int64_t device = first; device <= last; ++device) devices.push_back(device);
  }
  return devices;
}

// Reads only the axes of a mesh: the stage's devices say where it is and how large it must be.
Mesh ReadMesh(const JsonFields& stage) {
  std::vector<int64_t> devices = ReadDevices(stage);
  Mesh mesh;
  JsonFields fields(stage.At("mesh"), stage.file(), stage.PathOf("mesh"), {});
  if (fields.json().size() > kMaxAxes) {
    stage.Refuse("mesh",
                 fmt::format("{} axes, at most {} are possible", fields.json().size(), kMaxAxes));
  }
  int64_t count = std::ssize(devices), size = 1;
  for (const auto& [name, value] : fields.json().items()) {
    mesh.axes.push_back(value.is_array() ? ReadShares(fields, name, count)
                                         : MeshAxis{name, fields.Int(name, 1, count)});
    size *= mesh.axes.back().size;  // at most (2^20)^3
  }
  if (size != count) stage.Refuse("mesh", fmt::format("has {} devices, the stage {}", size, count));
  Place(mesh, devices);
  return mesh;
}

std::vector<RecomputePolicy> ReadRecompute(const JsonFields& stage, size_t blocks) {
  if (!stage.At("recompute").is_array()) {
    auto policy = static_cast<RecomputePolicy>(stage.Choice("recompute", kRecomputeNames));
    return std::vector<RecomputePolicy>(blocks, policy);
  }
  std::vector<RecomputePolicy> recompute;
  for (const std::string& name : stage.Texts("recompute")) {
    auto found = std::find(kRecomputeNames.begin(), kRecomputeNames.end(), name);
    if (found == kRecomputeNames.end())
      stage.Refuse("recompute", DidYouMean(name, kRecomputeNames));
    recompute.push_back(static_cast<RecomputePolicy>(found - kRecomputeNames.begin()));
  }
  if (recompute.size() != blocks) {
    stage.Refuse("recompute", fmt::format("{} choices for {} blocks", recompute.size(), blocks));
  }
  return recompute;
}

std::map<ValueId, GradientSync> ReadSync(const JsonFields& stage, const Model& model) {
  std::map<ValueId, GradientSync> sync;
  JsonFields fields(stage.At("sync"), stage.file(), stage.PathOf("sync"), kSyncKeys);
  std::map<std::string_view, ValueId> parameters;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter))
    parameters[model.graph.value(id).name] = id;
  for (const auto& [kind, key, help, most_zero] : kGradientSyncs) {
    if (kind == GradientSync::kReduce || !fields.Has(key)) continue;
    for (const std::string& name : fields.Texts(key)) {
      auto found = parameters.find(name);
      if (found == parameters.end()) {
        std::vector<std::string_view> names;
        for (const auto& [known, id] : parameters) names.push_back(known);
        bool near = !Nearest(name, names).empty();
        RefuseJson(fields.file(), fields.PathOf(key), name,
                   near ? DidYouMean(name, names) : "the model has no parameter of this name");
      }
      if (!sync.emplace(found->second, kind).second)
        RefuseJson(fields.file(), fields.PathOf(key), name, "this parameter is named twice");
    }
  }
  return sync;
}

std::vector<int> ReadShards(const JsonFields& fields, const Stage& stage) {
  std::vector<int> starts;
  for (const Json& start : fields.List("shard_starts")) {
    int after = starts.empty() ? stage.first_block : starts.back();
    bool fits = start.is_number_integer() && start.get<int64_t>() > after &&
                start.get<int64_t>() < stage.last_block;
    if (!fits) {
      RefuseJson(fields.file(), fields.PathOf("shard_starts"), start,
                 "expected ascending blocks of the stage, after its first");
    }
    starts.push_back(start.get<int>());
  }
  return starts;
}

// `first` is the block the stage must begin with.
Stage ReadStage(const Json& stages, size_t index, const Model& model, int first,
                std::string_view file) {
  JsonFields fields(stages[index], file, fmt::format("stages[{}]", index), kStageKeys);
  Stage stage;
  auto last = std::ssize(model.blocks) - 1;
  std::array<int64_t, 2> blocks = fields.Range("blocks", last);
  if (blocks[0] != first) fields.Refuse("blocks", fmt::format("must begin with block {}", first));
  if (index + 1 == stages.size() && blocks[1] != last) {
    fields.Refuse("blocks", fmt::format("the last stage must end with block {}", last));
  }
  stage.first_block = ToInt(blocks[0]);
  stage.last_block = ToInt(blocks[1]) + 1;
  stage.mesh = ReadMesh(fields);
  stage.recompute = ReadRecompute(fields, ToSize(stage.last_block - stage.first_block));
  JsonFields times(fields.At("times"), file, fields.PathOf("times"), kTimesKeys);
  stage.times = {times.Number("forward"), times.Number("backward"), times.Number("weight")};
  if (fields.Has("sync")) stage.sync = ReadSync(fields, model);
  if (fields.Has("shard_starts")) stage.shard_starts = ReadShards(fields, stage);
  ReadStrategies(fields.At("strategies"), model, stages, file, fields.PathOf("strategies"), stage);
  return stage;
}

std::vector<Stage> ReadStages(const JsonFields& fields, const Model& model) {
  const Json& list = fields.List("stages");
  if (list.empty()) fields.Refuse("stages", "expected at least one stage");
  std::vector<Stage> stages;
  for (size_t s = 0; s < list.size(); ++s) {
    int first = stages.empty() ? 0 : stages.back().last_block;
    if (first == ToInt(model.blocks.size())) {
      fields.Refuse("stages",
                    fmt::format("{} stages, and after {} no blocks are left", list.size(), s));
    }
    stages.push_back(ReadStage(list, s, model, first, fields.file()));
  }
  return stages;
}

Cluster ReadCluster(const JsonFields& fields) {
  if (!fields.At("cluster").is_object()) fields.Refuse("cluster", "expected a cluster written out");
  return ClusterFromYaml(fields.At("cluster").dump(-1, ' ', true),
                         fmt::format("{}: cluster", fields.file()));
}

void CheckVersion(const Json& json, std::string_view file) {
  JsonFields any(json, file, "", {});
  if (!any.Has("heddle_plan"))
    ThrowInput("{}: not a plan: heddle_plan, its version, is missing", file);
  int64_t version = any.Int("heddle_plan", 1, kMaxCount);
  if (version > kPlanVersion) {
    any.Refuse(
        "heddle_plan",
        fmt::format("a newer heddle wrote this plan; this one reads version {}", kPlanVersion));
  }
}

}  // namespace

Json DevicesToJson(const Mesh& mesh) {
  if (mesh.named.empty()) return {mesh.first, mesh.first + mesh.size() - 1};
  Json ranges = Json::array();
  for (size_t begin = 0, end = 0; begin < mesh.named.size(); begin = end) {
    for (end = begin + 1; end < mesh.named.size() && mesh.named[end] == mesh.named[end - 1] + 1;) {
      ++end;
    }
    ranges.push_back({mesh.named[begin], mesh.named[end - 1]});
  }
  return ranges;
}

std::string ToJson(const Plan& plan, const Model& model) {
  Json json;
  json["heddle_plan"] = kPlanVersion;
  json["model"] = ModelToJson(plan.model);
  json["batch"] = plan.batch;
  json["microbatches"] = plan.microbatches;
  json["batch_statistics"] = kStatistics[plan.local_batch_statistics ? 1 : 0];
  json["schedule"] = plan.schedule;
  json["chunks"] = plan.chunks;
  json["precision"] = PrecisionToJson(plan.precision);
  json["optimizer"] = plan.optimizer;
  json["zero"] = {{"level", plan.zero.level}, {"axes", plan.zero.axes}};
  if (plan.offload != Offload::kNone) {
    json["offload"] = Name(plan.offload);
  }
  if (plan.pruning.any()) json["pruning"] = PruningToJson(plan.pruning, model);
  json["bucket_bytes"] = plan.bucket_bytes;
  json["prefetch"] = plan.prefetch;
  if (plan.search_stopped) json["search_stopped"] = true;
  json["stages"] = Json::array();
  StrategyWriter strategies(model);
  for (const Stage& stage : plan.stages)
    json["stages"].push_back(StageToJson(stage, model, strategies));
  json["cluster"] = ToJson(plan.cluster);
  return PrettyJson(json);
}

PlanHeader ReadPlanHeader(const Json& json, std::string_view file) {
  CheckVersion(json, file);
  JsonFields fields(json, file, "", kPlanKeys);
  return {ReadModel(fields.At("model"), file), fields.Int("batch", 1, kMaxCount)};
}

Plan FromJson(const Json& json, const Model& model, std::string_view file) {
  PlanHeader header = ReadPlanHeader(json, file);
  JsonFields fields(json, file, "", kPlanKeys);
  Plan plan;
  plan.model = header.model;
  plan.batch = header.batch;
  if (plan.model.hash != StableHash(model.graph)) {
    ThrowInput("{}: model.hash: {}: the plan is for another model: '{}' has {}", file,
               HashToHex(plan.model.hash), model.graph.name, HashToHex(StableHash(model.graph)));
  }
  plan.cluster = ReadCluster(fields);
  plan.microbatches = fields.Int("microbatches", 1, kMaxCount);
  plan.local_batch_statistics = fields.Choice("batch_statistics", kStatistics) == 1;
  plan.schedule = fields.Text("schedule");
  plan.chunks = ToInt(fields.Int("chunks", 1, 1 << 20));
  plan.precision = ReadPrecision(fields.At("precision"), file);
  SetOptimizer(plan, kOptimizers[fields.Choice("optimizer", kOptimizers)]);
  plan.zero = ReadZero(fields.At("zero"), file);
  if (fields.Has("offload")) {
    plan.offload = static_cast<Offload>(fields.Choice("offload", kOffloadNames));
  }
  if (fields.Has("pruning")) plan.pruning = ReadPruning(fields.At("pruning"), model, file);
  plan.bucket_bytes = fields.Int("bucket_bytes", 1, INT64_MAX);
  plan.prefetch = ToInt(fields.Int("prefetch", 0, kMaxPrefetch));
  if (fields.Has("search_stopped")) plan.search_stopped = fields.Bool("search_stopped");
  plan.stages = ReadStages(fields, model);
  RequireSound(plan, model, std::string(file));
  return plan;
}

}  // namespace heddle
