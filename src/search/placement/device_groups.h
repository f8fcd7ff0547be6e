// The devices of a cluster as a few groups: machines, or runs of equal machines on large clusters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

constexpr size_t kMaxDeviceGroups = 8;

struct DeviceGroup {
  std::string name;              // of its machines
  std::vector<int64_t> devices;  // in ascending order, all of one type
  DeviceTypeId type;
  int64_t machines = 1;
  // Between the two devices of the group that are farthest apart; 0: a single device.
  double bandwidth = 0;
  int64_t size() const { return static_cast<int64_t>(devices.size()); }
};

// At most `most` groups in the order of the devices. Neighbouring equal machines are merged until
// there are no more groups than that, then machines of the same type anywhere. A machine with
// several types is a group per type. Throws InputError where there are more types than groups.
std::vector<DeviceGroup> FindDeviceGroups(const Cluster& cluster, size_t most = kMaxDeviceGroups);

// Bytes per second between the first devices of two groups.
double BandwidthBetween(const Cluster& cluster, const DeviceGroup& a, const DeviceGroup& b);

// The devices of the groups in the set, in ascending order.
std::vector<int64_t> DevicesIn(const std::vector<DeviceGroup>& groups, uint32_t set);

}  // namespace heddle
