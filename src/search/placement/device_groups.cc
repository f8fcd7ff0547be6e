#include "search/placement/device_groups.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/topology.h"

namespace heddle {
namespace {

DeviceId Id(int64_t device) { return DeviceId{static_cast<int32_t>(device)}; }

// Machines, divided by device type.
std::vector<DeviceGroup> Machines(const Cluster& cluster) {
  std::vector<DeviceGroup> groups;
  for (const GroupSpan& node : NodesOf(cluster)) {
    size_t begin = groups.size();
    for (int64_t d = node.first.value; d < node.first.value + node.count; ++d) {
      DeviceTypeId type = TypeOf(cluster, Id(d));
      auto same = std::find_if(groups.begin() + static_cast<std::ptrdiff_t>(begin), groups.end(),
                               [&](const DeviceGroup& group) { return group.type == type; });
      if (same == groups.end()) {
        groups.push_back({cluster.group(node.group).name, {}, type});
        same = groups.end() - 1;
      }
      same->devices.push_back(d);
    }
  }
  return groups;
}

// Merges neighbours for which `alike` holds, keeping the order.
template <typename Alike>
void Merge(std::vector<DeviceGroup>& groups, const Alike& alike) {
  std::vector<DeviceGroup> merged;
  for (DeviceGroup& group : groups) {
    auto same = std::find_if(merged.begin(), merged.end(),
                             [&](const DeviceGroup& other) { return alike(other, group); });
    if (same == merged.end()) {
      merged.push_back(std::move(group));
      continue;
    }
    same->devices.insert(same->devices.end(), group.devices.begin(), group.devices.end());
    same->machines += group.machines;
  }
  groups = std::move(merged);
}

}  // namespace

std::vector<DeviceGroup> FindDeviceGroups(const Cluster& cluster, size_t most) {
  std::vector<DeviceGroup> groups = Machines(cluster);
  if (groups.size() > most) {
    Merge(groups, [](const DeviceGroup& a, const DeviceGroup& b) {
      return a.type == b.type && a.name == b.name;
    });
  }
  if (groups.size() > most) {
    Merge(groups, [](const DeviceGroup& a, const DeviceGroup& b) { return a.type == b.type; });
  }
  if (groups.size() > most) {
    ThrowInput("the cluster has {} types of devices, at most {} can be planned together",
               groups.size(), most);
  }
  for (DeviceGroup& group : groups) {
    std::sort(group.devices.begin(), group.devices.end());
    if (group.size() < 2) continue;
    group.bandwidth =
        PathBetween(cluster, Id(group.devices.front()), Id(group.devices.back())).bandwidth;
  }
  return groups;
}

double BandwidthBetween(const Cluster& cluster, const DeviceGroup& a, const DeviceGroup& b) {
  return PathBetween(cluster, Id(a.devices.front()), Id(b.devices.front())).bandwidth;
}

std::vector<int64_t> DevicesIn(const std::vector<DeviceGroup>& groups, uint32_t set) {
  std::vector<int64_t> devices;
  for (size_t g = 0; g < groups.size(); ++g) {
    if ((set >> g & 1) == 0) continue;
    devices.insert(devices.end(), groups[g].devices.begin(), groups[g].devices.end());
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace heddle
