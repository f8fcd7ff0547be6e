#include "cli/torch/train_screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "report/curve.h"

namespace heddle {
namespace {

constexpr double kGibi = 1024.0 * 1024 * 1024;

double Elements(const Shape& shape) {
  double elements = 1;
  for (int64_t size : shape) elements *= static_cast<double>(size);
  return elements;
}

}  // namespace

double HostMemoryBytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
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
  if (size.peak_flops > 0 && !size.nominal)
    metrics.mfu = size.flops / record.seconds / size.peak_flops;
  metrics.memory_bytes = record.process_bytes;
  return metrics;
}

void PrintHeader(const Model& model, const Plan& plan, const DataSource& data,
                 const std::string& device, bool reference) {
  double parameters = 0;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter))
    parameters += Elements(model.graph.value(id).type.shape);
  fmt::print("{}: {} parameters, batch {}\n", model.graph.name, FormatCount(parameters),
             plan.batch);
  fmt::print("plan: {}\n", DescribePlan(plan));
  fmt::print("data: {}\n", data.Describe());
  if (!device.empty()) fmt::print("device: {}\n", device);
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
