#include "report/step_size.h"

#include <algorithm>

#include "cluster/topology.h"
#include "ops/analysis.h"
#include "plan/precision.h"

namespace heddle {
namespace {

constexpr std::string_view kNominalDevice = "cpu-core";  // of the preset `local`

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

}  // namespace heddle
