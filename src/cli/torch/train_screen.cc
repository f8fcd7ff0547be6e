#include "cli/torch/train_screen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "cluster/topology.h"
#include "ops/analysis.h"
#include "report/curve.h"

namespace heddle {
namespace {

constexpr std::string_view kNominalDevice = "cpu-core";  // of the preset `local`
constexpr double kGibi = 1024.0 * 1024 * 1024;

const DeviceType& TypeOfDevice(const Plan& plan, int64_t device) {
  return plan.cluster.type(TypeOf(plan.cluster, DeviceId{static_cast<int32_t>(device)}));
}

double Elements(const Shape& shape) {
  double elements = 1;
  for (int64_t size : shape) elements *= static_cast<double>(size);
  return elements;
}

}  // namespace

double HostMemoryBytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

StepSize SizeOfStep(const Model& model, const Plan& plan) {
  StepSize size;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kInput)) {
    const TensorType& type = model.graph.value(id).type;
    if (size.tokens == 0) size.tokens = type.shape.empty() ? 1 : static_cast<double>(type.shape[0]);
    if (IsFloat(type.dtype) || type.shape.size() != 2 || size.is_tokens) continue;
    size.is_tokens = true;
    size.tokens = Elements(type.shape);
  }
  Halves work = Measure(model.graph, model.rules).work;
  size.flops = work.forward.contraction_flops + work.backward.contraction_flops +
               work.weight.contraction_flops;
  size.devices = DeviceCount(plan);
  if (!NominalDevice(plan).empty()) return size;
  for (int64_t d = 0; d < size.devices; ++d) {
    const DeviceType& type = TypeOfDevice(plan, d);
    size.peak_flops += plan.precision.compute == DType::kBF16 ? type.peak.bf16 : type.peak.fp32;
  }
  return size;
}

std::string NominalDevice(const Plan& plan) {
  for (int64_t d = 0; d < DeviceCount(plan); ++d) {
    if (TypeOfDevice(plan, d).name == kNominalDevice) return std::string(kNominalDevice);
  }
  return "";
}

StepMetrics MetricsOf(const StepRecord& record, const StepSize& size, double lr) {
  StepMetrics metrics;
  metrics.step = record.step;
  metrics.loss = record.loss;
  metrics.lr = lr;
  metrics.step_seconds = record.seconds;
  metrics.grad_norm = record.grad_norm;
  metrics.tokens_per_second = size.tokens / record.seconds;
  metrics.tflops = size.flops / record.seconds / 1e12;
  if (size.peak_flops > 0) metrics.mfu = size.flops / record.seconds / size.peak_flops;
  metrics.memory_bytes = record.process_bytes;
  return metrics;
}

std::string Describe(const Plan& plan) {
  std::vector<std::string> parts;
  for (const MeshAxis& axis : plan.stages[0].mesh.axes)
    parts.push_back(fmt::format("{} {}", axis.name, axis.size));
  size_t runs = plan.stages.size() / static_cast<size_t>(plan.chunks);
  if (runs > 1) parts.push_back(fmt::format("pp {}", runs));
  std::string text = parts.empty() ? "one device" : fmt::format("{}", fmt::join(parts, " x "));
  int64_t devices = DeviceCount(plan);
  if (devices > 1) text += fmt::format(", {} devices", devices);
  if (plan.microbatches > 1)
    text += fmt::format(", {} micro-batches, {}", plan.microbatches, plan.schedule);
  if (plan.zero.level > 0) text += fmt::format(", ZeRO {}", plan.zero.level);
  if (plan.precision.compute == DType::kBF16) text += ", bf16";
  return text;
}

void PrintHeader(const Model& model, const Plan& plan, const DataSource& data, bool reference) {
  double parameters = 0;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter))
    parameters += Elements(model.graph.value(id).type.shape);
  fmt::print("{}: {} parameters, batch {}\n", model.graph.name, FormatCount(parameters),
             plan.batch);
  fmt::print("plan: {}\n", Describe(plan));
  fmt::print("data: {}\n", data.Describe());
  std::string beside = reference ? fmt::format("{:>12} {:>9} ", "reference", "relative") : "";
  fmt::print("{:>6} {:>12} {}{:>10} {:>16} {:>10} {:>9} {:>7} {:>10}\n", "step", "loss", beside,
             "grad_norm", "peak RSS", "tps", "tflops", "mfu", "time");
}

void PrintStep(const StepMetrics& metrics, double beside, bool reference) {
  std::string compared;
  if (reference) {
    double error = std::abs(metrics.loss - beside) / std::max(1e-12, std::abs(beside));
    compared = fmt::format("{:>12.6f} {:>9.1e} ", beside, error);
  }
  double memory = static_cast<double>(*metrics.memory_bytes);
  std::string held =
      fmt::format("{:.2f}GiB({:.1f}%)", memory / kGibi, 100 * memory / HostMemoryBytes());
  std::string mfu = metrics.mfu ? fmt::format("{:.1f}%", 100 * *metrics.mfu) : "-";
  fmt::print("{:>6} {:>12.6f} {}{:>10.4f} {:>16} {:>10.0f} {:>9.4f} {:>7} {:>10}\n", metrics.step,
             metrics.loss, compared, *metrics.grad_norm, held, *metrics.tokens_per_second,
             *metrics.tflops, mfu, FormatSeconds(Seconds{metrics.step_seconds}));
  std::fflush(stdout);
}

void PrintSummary(const TrainSummary& summary, const StepSize& size) {
  std::vector<double> losses;
  for (const StepRecord& step : summary.steps) losses.push_back(step.loss);
  if (losses.size() >= 20) fmt::print("\n{}", LossCurve(losses, 72, 14));
  double seconds = summary.steps[summary.median_step].seconds;
  fmt::print("\nloss {:.4f} -> {:.4f} in {} step{} of {} (median): {} {}/s on {} device{}\n",
             losses.front(), losses.back(), losses.size(), losses.size() == 1 ? "" : "s",
             FormatSeconds(Seconds{seconds}), FormatCount(size.tokens / seconds),
             size.is_tokens ? "tokens" : "samples", size.devices, size.devices == 1 ? "" : "s");
}

}  // namespace heddle
