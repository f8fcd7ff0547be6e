#include "plan/plan.h"

#include <algorithm>

namespace heddle {

std::vector<NodeId> NodesOf(const Model& model, const Stage& stage) {
  std::vector<NodeId> nodes;
  for (int b = stage.first_block; b < stage.last_block; ++b) {
    const std::vector<NodeId>& block = model.blocks[static_cast<size_t>(b)].nodes;
    nodes.insert(nodes.end(), block.begin(), block.end());
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

int64_t DeviceCount(const Plan& plan) {
  int64_t devices = 0;
  for (const Stage& stage : plan.stages)
    devices = std::max(devices, stage.mesh.first + stage.mesh.size());
  return devices;
}

}  // namespace heddle
