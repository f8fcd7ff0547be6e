#include "validate/published_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json_fields.h"
#include "cluster/cluster.h"
#include "frontend/families/settings.h"

namespace heddle {
namespace {

constexpr size_t kMaxRuns = 100'000;
constexpr size_t kMaxId = 200;
constexpr size_t kMaxText = 10'000;
constexpr int64_t kMaxBatch = int64_t{1} << 30;
constexpr double kMaxNumber = 1e15;  // limit of measured values

constexpr std::string_view kFileKeys[] = {"schema", "compiled", "count", "counts_by_source",
                                          "runs"};
constexpr std::string_view kRunKeys[] = {"id",
                                         "source_id",
                                         "family",
                                         "model",
                                         "precision",
                                         "optimizer",
                                         "attention_impl",
                                         "device",
                                         "gpus",
                                         "gpus_per_node",
                                         "nodes",
                                         "interconnect",
                                         "parallel",
                                         "micro_batch",
                                         "global_batch",
                                         "microbatches_per_pipeline",
                                         "recompute",
                                         "schedule",
                                         "sharding",
                                         "overlap",
                                         "measured",
                                         "derived",
                                         "flop_formula",
                                         "source",
                                         "source_kind",
                                         "confidence",
                                         "unverified_fields",
                                         "notes"};
constexpr std::string_view kLinkKeys[] = {"intra", "inter", "intra_gbytes_per_s_per_gpu_one_way",
                                          "inter_gbytes_per_s_per_gpu_one_way"};
constexpr std::string_view kDegreeKeys[] = {"tp", "pp", "dp", "cp", "ep", "sequence_parallel"};
constexpr std::string_view kScheduleKeys[] = {"kind", "virtual_stages"};

// Fields that may be null or missing, which both mean "not published".
class RunFields {
 public:
  RunFields(const Json& json, std::string_view file, std::string path,
            std::span<const std::string_view> known)
      : fields_(json, file, std::move(path), known) {}

  bool IsNull(std::string_view key) const { return !fields_.Has(key) || fields_.At(key).is_null(); }

  int64_t Int(std::string_view key, int64_t high) const { return fields_.Int(key, 1, high); }
  std::optional<int64_t> MaybeInt(std::string_view key, int64_t high) const {
    if (IsNull(key)) return std::nullopt;
    return Int(key, high);
  }
  int64_t Count(std::string_view key, int64_t high) const {
    return IsNull(key) ? 0 : fields_.Int(key, 0, high);
  }
  std::optional<double> MaybePositive(std::string_view key) const {
    if (IsNull(key)) return std::nullopt;
    double number = fields_.Number(key);
    if (!std::isfinite(number) || number <= 0 || number > kMaxNumber)
      fields_.Refuse(key,
                     fmt::format("expected a number above 0, up to {:g}, or null", kMaxNumber));
    return number;
  }
  bool Flag(std::string_view key) const { return !IsNull(key) && fields_.Bool(key); }
  std::string Text(std::string_view key) const {
    std::string text = fields_.Text(key);
    if (text.size() > kMaxText)
      fields_.Refuse(key, fmt::format("longer than {} bytes: shorten it", kMaxText));
    return text;
  }
  std::optional<std::string> MaybeText(std::string_view key) const {
    if (IsNull(key)) return std::nullopt;
    return Text(key);
  }
  // May be empty or missing.
  std::string Remark(std::string_view key) const {
    if (IsNull(key) || fields_.At(key) == Json("")) return "";
    return Text(key);
  }

  // The object under a key; null counts as an empty object.
  RunFields Object(std::string_view key, std::span<const std::string_view> known) const {
    static const Json empty = Json::object();
    return {IsNull(key) ? empty : fields_.At(key), fields_.file(), fields_.PathOf(key), known};
  }
  const JsonFields& plain() const { return fields_; }

 private:
  JsonFields fields_;
};

PublishedExperts ReadExperts(const RunFields& fields) {
  return {.experts = fields.Int("experts", kMaxSize),
          .top_k = fields.Int("top_k", kMaxSize),
          .expert_ffn = fields.Int("expert_ffn", kMaxSize),
          .shared_experts = fields.Count("shared_experts", kMaxSize),
          .dense_layers = fields.Count("dense_layers", kMaxLayers)};
}

PublishedModel ReadModel(const RunFields& fields) {
  PublishedModel model;
  model.layers = fields.Int("layers", kMaxLayers);
  for (auto [key, size] : {std::pair{"hidden", &model.hidden},
                           {"heads", &model.heads},
                           {"kv_heads", &model.kv_heads},
                           {"head_dim", &model.head_dim},
                           {"ffn", &model.ffn},
                           {"vocab", &model.vocab},
                           {"seq", &model.seq}}) {
    *size = fields.Int(key, kMaxSize);
  }
  model.mlp = fields.Text("mlp");
  model.tied_embeddings = fields.plain().Bool("tied_embeddings");
  model.position = fields.MaybeText("position");
  model.params_billion = fields.MaybePositive("params_billion");
  if (!fields.IsNull("moe")) model.moe = ReadExperts(fields.Object("moe", {}));
  model.attention = fields.MaybeText("attention");
  model.parallel_attention_mlp = fields.Flag("parallel_attention_mlp");
  model.sliding_window_attention = fields.Flag("sliding_window_attention");
  model.embedding_layernorm = fields.Flag("embedding_layernorm");
  return model;
}

PublishedInterconnect ReadInterconnect(const RunFields& fields) {
  return {fields.Remark("intra"), fields.Remark("inter"),
          fields.MaybePositive("intra_gbytes_per_s_per_gpu_one_way"),
          fields.MaybePositive("inter_gbytes_per_s_per_gpu_one_way")};
}

PublishedDegrees ReadDegrees(const RunFields& fields) {
  PublishedDegrees degrees;
  for (auto [key, degree] : {std::pair{"tp", &degrees.tp},
                             {"pp", &degrees.pp},
                             {"dp", &degrees.dp},
                             {"cp", &degrees.cp},
                             {"ep", &degrees.ep}}) {
    *degree = fields.MaybeInt(key, kMaxDevices);
  }
  degrees.sequence_parallel = fields.Flag("sequence_parallel");
  return degrees;
}

PublishedMeasurement ReadMeasurement(const RunFields& fields) {
  PublishedMeasurement measured;
  for (auto [key, number] : {std::pair{"step_seconds", &measured.step_seconds},
                             {"tflops_per_gpu", &measured.tflops_per_gpu},
                             {"tokens_per_s", &measured.tokens_per_s},
                             {"tokens_per_s_per_gpu", &measured.tokens_per_s_per_gpu},
                             {"samples_per_s_per_gpu", &measured.samples_per_s_per_gpu},
                             {"mfu_percent", &measured.mfu_percent},
                             {"hfu_percent", &measured.hfu_percent},
                             {"memory_gib", &measured.memory_gib}}) {
    *number = fields.MaybePositive(key);
  }
  return measured;
}

// Ids appear in errors and tables, so they must be printable.
std::string ReadId(const Json& run, size_t index, std::string_view file) {
  JsonFields fields(run, file, fmt::format("runs[{}]", index), {});
  std::string id = fields.Text("id");
  bool plain =
      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < '\x7f' && c != '"'; });
  if (!plain || id.size() > kMaxId) {
    fields.Refuse("id",
                  fmt::format("expected up to {} printable characters without spaces", kMaxId));
  }
  return id;
}

PublishedRun ReadRun(const Json& json, size_t index, std::string_view file) {
  PublishedRun run;
  run.id = ReadId(json, index, file);
  RunFields fields(json, file, run.id, kRunKeys);
  run.source_id = fields.Text("source_id");
  run.family = fields.Text("family");
  run.model = ReadModel(fields.Object("model", {}));
  run.precision = fields.Text("precision");
  run.optimizer = fields.Text("optimizer");
  run.attention_impl = fields.MaybeText("attention_impl");
  run.hardware.device = fields.Text("device");
  run.hardware.gpus = fields.Int("gpus", kMaxDevices);
  run.hardware.gpus_per_node = fields.Int("gpus_per_node", kMaxDevices);
  run.hardware.interconnect = ReadInterconnect(fields.Object("interconnect", kLinkKeys));
  run.parallel = ReadDegrees(fields.Object("parallel", kDegreeKeys));
  run.batch.micro_batch = fields.MaybeInt("micro_batch", kMaxBatch);
  run.batch.global_batch = fields.MaybeInt("global_batch", kMaxBatch);
  run.batch.microbatches_per_pipeline = fields.MaybePositive("microbatches_per_pipeline");
  run.recompute = fields.MaybeText("recompute");
  if (!fields.IsNull("schedule")) {
    RunFields schedule = fields.Object("schedule", kScheduleKeys);
    run.schedule =
        PublishedSchedule{schedule.Text("kind"), schedule.MaybeInt("virtual_stages", kMaxLayers)};
  }
  run.sharding = fields.MaybeText("sharding");
  run.overlap = fields.MaybeText("overlap");
  run.measured = ReadMeasurement(fields.Object("measured", {}));
  run.derived_step_seconds = fields.Object("derived", {}).MaybePositive("step_seconds");
  run.flop_formula = fields.MaybeText("flop_formula");
  run.notes = fields.Remark("notes");
  return run;
}

}  // namespace

std::vector<PublishedRun> ParsePublishedRuns(std::string_view text, std::string_view file) {
  Json json = ParseJson(text, file);
  JsonFields fields(json, file, "", kFileKeys);
  const Json& list = fields.List("runs");
  if (list.empty() || list.size() > kMaxRuns) {
    ThrowInput("{}: runs: {} runs: expected 1 to {}", file, list.size(), kMaxRuns);
  }
  std::vector<PublishedRun> runs;
  std::set<std::string> ids;
  for (size_t i = 0; i < list.size(); ++i) {
    runs.push_back(ReadRun(list[i], i, file));
    if (!ids.insert(runs.back().id).second) {
      ThrowInput("{}: runs[{}].id: \"{}\": another run has this id: change one of them", file, i,
                 runs.back().id);
    }
  }
  return runs;
}

const std::vector<PublishedRun>& BundledRuns() {
  static const std::vector<PublishedRun> runs =
      ParsePublishedRuns(BundledRunsText(), "published_runs.json");
  return runs;
}

std::vector<std::string> MissingFields(const PublishedRun& run) {
  std::vector<std::string> missing;
  auto require = [&](std::string_view name, bool there) {
    if (!there) missing.emplace_back(name);
  };
  require("parallel.tp", run.parallel.tp.has_value());
  require("parallel.pp", run.parallel.pp.has_value());
  require("parallel.dp", run.parallel.dp.has_value());
  require("parallel.cp", run.parallel.cp.has_value());
  require("parallel.ep", run.parallel.ep.has_value());
  require("micro_batch", run.batch.micro_batch.has_value());
  require("global_batch", run.batch.global_batch.has_value());
  require("recompute", run.recompute.has_value());
  require("schedule", run.schedule.has_value());
  require("sharding", run.sharding.has_value());
  return missing;
}

bool IsComplete(const PublishedRun& run) { return MissingFields(run).empty(); }

std::optional<double> MeasuredSeconds(const PublishedRun& run) {
  return run.measured.step_seconds ? run.measured.step_seconds : run.derived_step_seconds;
}

}  // namespace heddle
