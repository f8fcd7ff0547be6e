#include "host/metrics/metrics.h"

#include <vector>

#include "base/json.h"

namespace heddle {
namespace {

struct Field {
  std::string_view tag;  // in TensorBoard; without "train/" or "speed/" it is the key in JSON
  std::optional<double> value;
};

std::vector<Field> Fields(const StepMetrics& m) {
  std::optional<double> memory;
  if (m.memory_bytes) memory = static_cast<double>(*m.memory_bytes);
  return {{"train/loss", m.loss},
          {"train/lr", m.lr},
          {"train/grad_norm", m.grad_norm},
          {"speed/step_seconds", m.step_seconds},
          {"speed/tokens_per_second", m.tokens_per_second},
          {"speed/tflops", m.tflops},
          {"speed/mfu", m.mfu},
          {"speed/memory_bytes", memory}};
}

}  // namespace

std::string ToJsonLine(const StepMetrics& metrics) {
  Json json;
  json["step"] = metrics.step;
  for (const Field& field : Fields(metrics)) {
    if (field.value) json[std::string(field.tag.substr(6))] = *field.value;
  }
  if (metrics.memory_bytes) json["memory_bytes"] = *metrics.memory_bytes;  // as an integer
  return json.dump();
}

MetricsWriter::MetricsWriter(const MetricsOptions& options) {
  if (!options.jsonl.empty()) jsonl_.emplace(options.jsonl);
  if (!options.tensorboard.empty()) tensorboard_.emplace(options.tensorboard);
}

void MetricsWriter::Write(const StepMetrics& metrics) {
  if (jsonl_) jsonl_->Write(ToJsonLine(metrics) + "\n");
  if (!tensorboard_) return;
  std::vector<Scalar> scalars;
  for (const Field& field : Fields(metrics)) {
    if (field.value) scalars.push_back({field.tag, *field.value});
  }
  tensorboard_->Write(metrics.step, scalars);
}

void MetricsWriter::WriteEvaluation(int64_t steps_done, double loss) {
  if (jsonl_) {
    Json json;
    json["step"] = steps_done;
    json["eval_loss"] = loss;
    jsonl_->Write(json.dump() + "\n");
  }
  Scalar scalar{"eval/loss", loss};
  if (tensorboard_) tensorboard_->Write(steps_done, {&scalar, 1});
}

}  // namespace heddle
