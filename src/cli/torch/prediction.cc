#include "cli/torch/prediction.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cli/torch/train_screen.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

std::string TimeText(double seconds) { return FormatSeconds(Seconds{seconds}); }
std::string Size(int64_t bytes) { return bytes == 0 ? "-" : FormatBytes(Bytes{bytes}); }

}  // namespace

StepPrediction Predict(const Program& program, const Plan& plan, const SimOptions& options) {
  SimResult result = Simulate(program, plan.cluster, options);
  const DeviceResult& busiest = *std::max_element(
      result.devices.begin(), result.devices.end(),
      [](const DeviceResult& a, const DeviceResult& b) { return a.compute < b.compute; });
  StepPrediction prediction;
  prediction.step_seconds = result.step_seconds;
  prediction.peak_memory_bytes = result.peak_memory_bytes;
  prediction.device = busiest.device;
  prediction.devices = program.device_count();
  prediction.kind_seconds = busiest.kinds.seconds;
  for (const Instruction& instruction : program.RunOf(busiest.device).instructions)
    ++prediction.kind_count[static_cast<size_t>(instruction.op)];
  if (options.profiles.empty()) prediction.uncalibrated = NominalDevice(plan);
  return prediction;
}

std::string BesideMeasured(const StepPrediction& prediction, const TrainSummary& summary) {
  const DeviceMeasurement& device = summary.devices[static_cast<size_t>(prediction.device)];
  std::string text = fmt::format(
      "\n{:<34}{:>7}{:>12}{:>12}\n",
      fmt::format("device {} of {}, the busiest", prediction.device, prediction.devices), "count",
      "predicted", "measured");
  for (size_t k = 0; k < kOpcodeCount; ++k) {
    if (prediction.kind_count[k] == 0) continue;
    text +=
        fmt::format("  {:<32}{:>7}{:>12}{:>12}\n", AllOpcodes()[k].name, prediction.kind_count[k],
                    TimeText(prediction.kind_seconds[k]), TimeText(device.kind_seconds[k]));
  }
  text += fmt::format("  {:<39}{:>12}{:>12}\n", "step", TimeText(prediction.step_seconds),
                      TimeText(summary.steps[summary.median_step].seconds));
  text += fmt::format("  {:<39}{:>12}{:>12}\n", "peak memory of tensors, any device",
                      Size(prediction.peak_memory_bytes), Size(summary.peak_memory_bytes));
  text += fmt::format("  {:<39}{:>12}{:>12}\n", "peak RSS, any process", "-",
                      Size(summary.peak_process_bytes));
  text += fmt::format(
      "predicted: simulated{}; measured: the median step, with waits\n",
      prediction.uncalibrated.empty()
          ? ""
          : fmt::format(", uncalibrated (the rates of {} are nominal)", prediction.uncalibrated));
  return text;
}

void AddPrediction(Json& json, const StepPrediction& prediction, const TrainSummary& summary) {
  json["predicted_step_seconds"] = prediction.step_seconds;
  json["predicted_peak_memory_bytes"] = prediction.peak_memory_bytes;
  json["prediction"] = {{"source", "simulated"},
                        {"stack", kDefaultStack},
                        {"calibrated", prediction.uncalibrated.empty()}};
  json["busiest_device"] = prediction.device;
  const DeviceMeasurement& device = summary.devices[static_cast<size_t>(prediction.device)];
  Json& kinds = json["instructions"] = Json::object();
  for (size_t k = 0; k < kOpcodeCount; ++k) {
    if (prediction.kind_count[k] == 0) continue;
    kinds[std::string(AllOpcodes()[k].name)] = {{"count", prediction.kind_count[k]},
                                                {"predicted_seconds", prediction.kind_seconds[k]},
                                                {"measured_seconds", device.kind_seconds[k]}};
  }
}

}  // namespace heddle
