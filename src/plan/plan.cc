#include "plan/plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/integers.h"

namespace heddle {

std::vector<NodeId> NodesOf(const Model& model, const Stage& stage) {
  std::vector<NodeId> nodes;
  for (int b = stage.first_block; b < stage.last_block; ++b) {
    const std::vector<NodeId>& block = model.blocks[ToSize(b)].nodes;
    nodes.insert(nodes.end(), block.begin(), block.end());
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

std::vector<NodeId> NodesAndSideNodesOf(const Model& model, const Stage& stage) {
  std::vector<NodeId> nodes = NodesOf(model, stage);
  std::vector<NodeId> side = SideNodesOf(model, nodes);
  nodes.insert(nodes.end(), side.begin(), side.end());
  return nodes;
}

int ShardOf(const Stage& stage, int block) {
  const std::vector<int>& starts = stage.shard_starts;
  return static_cast<int>(std::upper_bound(starts.begin(), starts.end(), block) - starts.begin());
}

int ShardCount(const Stage& stage) { return ToInt(stage.shard_starts.size()) + 1; }

bool CanOffload(const Cluster& cluster) {
  return std::all_of(cluster.device_types.begin(), cluster.device_types.end(),
                     [](const DeviceType& type) { return type.host.exists(); });
}

void RequireHost(const Cluster& cluster, Offload offload) {
  if (offload == Offload::kNone) return;
  for (const DeviceType& type : cluster.device_types) {
    if (type.host.exists()) continue;
    ThrowInput(
        "offload {}: device '{}' of cluster '{}' has no link to its host: use none, or give it one "
        "in a cluster file (host: bandwidth and latency)",
        Name(offload), type.name, cluster.name);
  }
}

int64_t DeviceCount(const Plan& plan) {
  int64_t devices = 0;
  for (const Stage& stage : plan.stages)
    devices = std::max(devices, DeviceAt(stage.mesh, stage.mesh.size() - 1) + 1);
  return devices;
}

}  // namespace heddle
