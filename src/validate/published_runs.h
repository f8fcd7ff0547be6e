// Published training runs: the model, the hardware, the parallelism and the measured speed of each. Their file is
//
//   {"schema": {...}, "runs": [{"id": "...", "source_id": "...", "model": {...}, "parallel": {...}, ...}, ...]}
//
// whose "schema" explains every field; src/validate/published_runs.json is one and is compiled into this library. null
// means "not published". In "model", "measured" and "derived", keys that are not named here are remarks and are
// ignored; unknown keys anywhere else are errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct PublishedExperts {
  int64_t experts = 1, top_k = 1, expert_ffn = 1, shared_experts = 0, dense_layers = 0;
  bool operator==(const PublishedExperts&) const = default;
};

struct PublishedModel {
  int64_t layers = 1, hidden = 1, heads = 1, kv_heads = 1, head_dim = 1, ffn = 1, vocab = 1,
          seq = 1;
  std::string mlp;  // gelu_2mat, swiglu_3mat, geglu_3mat, squared_relu_2mat
  bool tied_embeddings = false;
  std::optional<std::string> position;  // learned, rope or alibi; a remark may follow
  std::optional<double> params_billion;
  std::optional<PublishedExperts> moe;
  std::optional<std::string> attention;  // a remark, such as on latent attention
  bool parallel_attention_mlp = false, sliding_window_attention = false;
  bool embedding_layernorm = false;
  bool operator==(const PublishedModel&) const = default;
};

// GB/s per device in one direction, as the vendor states them.
struct PublishedInterconnect {
  std::string intra, inter;
  std::optional<double> intra_rate, inter_rate;
  bool operator==(const PublishedInterconnect&) const = default;
};

struct PublishedHardware {
  std::string device;
  int64_t gpus = 1, gpus_per_node = 1;
  PublishedInterconnect interconnect;
  bool operator==(const PublishedHardware&) const = default;
};

// In samples, but for the number of micro-batches that each pipeline has.
struct PublishedBatch {
  std::optional<int64_t> micro_batch, global_batch;
  std::optional<double> microbatches_per_pipeline;
  bool operator==(const PublishedBatch&) const = default;
};

struct PublishedDegrees {
  std::optional<int64_t> tp, pp, dp, cp, ep;
  bool sequence_parallel = false;
  bool operator==(const PublishedDegrees&) const = default;
};

struct PublishedSchedule {
  std::string kind;
  std::optional<int64_t> virtual_stages;  // per pipeline rank; not given: 1
  bool operator==(const PublishedSchedule&) const = default;
};

struct PublishedMeasurement {
  std::optional<double> step_seconds, tflops_per_gpu, tokens_per_s, tokens_per_s_per_gpu;
  std::optional<double> samples_per_s_per_gpu, mfu_percent, hfu_percent, memory_gib;
  bool operator==(const PublishedMeasurement&) const = default;
};

struct PublishedRun {
  std::string id, source_id, family;
  PublishedModel model;
  std::string precision, optimizer;
  std::optional<std::string> attention_impl;
  PublishedHardware hardware;
  PublishedDegrees parallel;
  PublishedBatch batch;
  std::optional<std::string> recompute;
  std::optional<PublishedSchedule> schedule;
  std::optional<std::string> sharding, overlap;
  PublishedMeasurement measured;
  std::optional<double> derived_step_seconds;
  std::optional<std::string> flop_formula;
  std::string notes;
  bool operator==(const PublishedRun&) const = default;
};

// Reads the runs of a file; their ids differ. Throws InputError "file: id.field: value: remedy".
std::vector<PublishedRun> ParsePublishedRuns(std::string_view text, std::string_view file);

// The bundled file.
std::string_view BundledRunsText();
const std::vector<PublishedRun>& BundledRuns();

// The fields that a plan needs and that were not published: "parallel.pp", "micro_batch", ... A run is complete if
// there are none.
std::vector<std::string> MissingFields(const PublishedRun& run);
bool IsComplete(const PublishedRun& run);

// Seconds per optimizer step: measured, or derived from what was measured. nullopt if the run has neither.
std::optional<double> MeasuredSeconds(const PublishedRun& run);

}  // namespace heddle
