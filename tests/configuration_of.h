// The configuration that a plan is of, as the search lists it (search/explore/configuration.h).
#pragma once

#include <optional>

#include "search/explore/configuration.h"

namespace heddle {

// Nothing where stages differ in their meshes, or have other axes than those that the search lists. A plan of one stage is
// of the schedule 1f1b, and one without a data axis of ZeRO 0: both are so listed, whatever the plan says.
inline std::optional<Configuration> ConfigurationOf(const Plan& plan) {
  Configuration c;
  const std::vector<MeshAxis>& axes = plan.stages.front().mesh.axes;
  for (const MeshAxis& axis : axes) {
    if (axis.name == "dp") {
      c.dp = axis.size;
    } else if (axis.name == "tp" || axis.name == "xp") {
      c.axes.push_back(axis.size);
    } else {
      return std::nullopt;
    }
  }
  for (const Stage& stage : plan.stages) {
    if (!(stage.mesh.axes == axes)) return std::nullopt;
  }
  c.pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  c.microbatches = plan.microbatches;
  c.chunks = plan.chunks;
  if (plan.stages.size() > 1) c.schedule = plan.schedule;
  c.zero = c.dp > 1 ? plan.zero.level : 0;
  c.offload = plan.offload;
  return c;
}

}  // namespace heddle
