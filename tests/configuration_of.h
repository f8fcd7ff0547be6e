// The configuration of a plan, as the search enumerates it (search/explore/configuration.h).
#pragma once

#include <optional>

#include "search/explore/configuration.h"

namespace heddle {

// Returns nullopt if stages have different meshes, or axes that the search does not use. As in the enumeration, a plan
// with one stage has the schedule 1f1b, and a plan without a data axis has ZeRO 0, independent of the values in the
// plan.
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
