#include "report/step_size.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cluster/topology.h"
#include "ops/analysis.h"
#include "plan/precision.h"

namespace heddle {
namespace {

constexpr std::string_view kNominalDevice = "cpu-core";  // of the preset `local`

// Of all blocks, where they agree.
std::string RecomputeName(const Plan& plan) {
  RecomputePolicy first = RecomputePolicy::kNone;
  bool any = false;
  for (const Stage& stage : plan.stages) {
    for (RecomputePolicy policy : stage.recompute) {
      if (any && policy != first) return "mixed";
      first = policy;
      any = true;
    }
  }
  return std::string(kRecomputeNames[static_cast<size_t>(first)]);
}

}  // namespace

StepSize SizeOfStep(const Model& model, const Plan& plan) {
  StepSize size;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kInput)) {
    const TensorType& type = model.graph.value(id).type;
    if (size.tokens == 0) size.tokens = type.shape.empty() ? 1 : static_cast<double>(type.shape[0]);
    if (IsFloat(type.dtype) || type.shape.size() != 2 || size.is_tokens) continue;
    size.is_tokens = true;
    size.tokens = static_cast<double>(ElementCount(type.shape));
  }
  Halves work = Measure(model.graph, model.rules).work;
  size.flops = work.forward.contraction_flops + work.backward.contraction_flops +
               work.weight.contraction_flops;
  size.devices = DeviceCount(plan);
  for (const DeviceRun& run : EqualRuns(plan.cluster)) {
    int64_t used = std::min(run.count, size.devices - run.first.value);
    if (used <= 0) break;
    const DeviceType& type = plan.cluster.type(run.type);
    size.peak_flops += static_cast<double>(used) *
                       PeakRate(type.peak, plan.precision.compute, plan.precision.products);
  }
  size.nominal = !NominalDevice(plan).empty();
  return size;
}

std::string NominalDevice(const Plan& plan) {
  int64_t devices = DeviceCount(plan);
  for (const DeviceRun& run : EqualRuns(plan.cluster)) {
    const DeviceType& type = plan.cluster.type(run.type);
    if (run.first.value < devices && type.name == kNominalDevice) return type.name;
  }
  return "";
}

std::string DescribePlan(const Plan& plan) {
  std::vector<std::string> parts;
  for (const MeshAxis& axis : plan.stages[0].mesh.axes) {
    parts.push_back(ToString(axis));
  }
  size_t runs = plan.stages.size() / static_cast<size_t>(plan.chunks);
  if (runs > 1) parts.push_back(fmt::format("pp {}", runs));
  std::string text = parts.empty() ? "one device" : fmt::format("{}", fmt::join(parts, " x "));
  int64_t devices = DeviceCount(plan);
  if (devices > 1) text += fmt::format(", {} devices", devices);
  if (plan.microbatches > 1) {
    text += fmt::format(", {} micro-batches, {}", plan.microbatches, plan.schedule);
  }
  if (plan.chunks > 1) text += fmt::format(" of {} stages a device", plan.chunks);
  if (plan.zero.level > 0) text += fmt::format(", ZeRO {}", plan.zero.level);
  if (plan.offload == Offload::kOptimizer) text += ", optimizer on the host";
  if (plan.offload == Offload::kAll) {
    text += ", weights and optimizer on the host in shards:";
    for (const Stage& stage : plan.stages) text += fmt::format(" {}", ShardCount(stage));
  }
  std::string_view precision = PrecisionName(plan.precision.compute, plan.precision.products);
  if (precision != "f32") text += fmt::format(", {}", precision);
  std::string recompute = RecomputeName(plan);
  if (recompute != "none") text += fmt::format(", recompute {}", recompute);
  return text;
}

}  // namespace heddle
