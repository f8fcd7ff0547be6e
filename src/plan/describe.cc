#include "plan/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/precision.h"

namespace heddle {
namespace {

// The policy of all blocks, or "mixed" where they differ.
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
  return std::string(Name(first));
}

}  // namespace

std::string OffloadInWords(const Plan& plan) {
  std::string_view words = DefOf(plan.offload).in_words;
  if (words.empty()) return "";
  std::string text = fmt::format(", {}", words);
  if (plan.offload != Offload::kAll) return text;
  text += ":";
  for (const Stage& stage : plan.stages) text += fmt::format(" {}", ShardCount(stage));
  return text;
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
  if (SplitsState(plan.zero.level)) text += fmt::format(", ZeRO {}", plan.zero.level);
  text += OffloadInWords(plan);
  std::string_view precision = PrecisionName(plan.precision.compute, plan.precision.products);
  if (precision != "f32") text += fmt::format(", {}", precision);
  std::string recompute = RecomputeName(plan);
  if (recompute != "none") text += fmt::format(", recompute {}", recompute);
  return text;
}

}  // namespace heddle
