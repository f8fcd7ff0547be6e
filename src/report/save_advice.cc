#include "report/save_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "plan/save_interval.h"

namespace heddle {

SaveAdvice AdviceOf(const JudgedPlan& best, double mtbf) {
  const Precision& precision = best.plan.precision;
  SaveAdvice advice;
  advice.bytes = best.memory.optimizer;
  for (const DeviceResult& device : best.result.devices) {
    advice.bytes = std::max(advice.bytes, device.host_memory);  // includes offloaded state
  }
  if (precision.master == precision.compute) advice.bytes += best.memory.weights;
  double bandwidth = std::numeric_limits<double>::infinity();
  for (const DeviceType& type : best.plan.cluster.device_types) {
    bandwidth = std::min(bandwidth, type.host.bandwidth);
  }
  if (!(bandwidth > 0)) return advice;
  advice.seconds = static_cast<double>(advice.bytes) / bandwidth;
  advice.interval = YoungInterval(advice.seconds, mtbf);
  return advice;
}

std::string SaveText(const JudgedPlan& best, double mtbf) {
  SaveAdvice advice = AdviceOf(best, mtbf);
  if (advice.interval == 0) {
    return "  checkpoints  the cluster has no link to the host, so the cost of a save is unknown\n";
  }
  return fmt::format(
      "  checkpoints  every {} ({:.0f} steps) with a failure every {}: a save holds training up "
      "for {} ({} to the host)\n",
      FormatSeconds(Seconds{advice.interval}),
      std::max(1.0, advice.interval / best.result.step_seconds), FormatSeconds(Seconds{mtbf}),
      FormatSeconds(Seconds{advice.seconds}), FormatBytes(Bytes{advice.bytes}));
}

Json SaveJson(const JudgedPlan& best, double mtbf) {
  SaveAdvice advice = AdviceOf(best, mtbf);
  return {{"mtbf_seconds", mtbf},
          {"bytes", advice.bytes},
          {"save_seconds", advice.seconds},
          {"interval_seconds", advice.interval}};
}

}  // namespace heddle
