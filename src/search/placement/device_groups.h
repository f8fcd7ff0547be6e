// The devices of a cluster as a few groups: machines, or runs of equal machines where there are many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

constexpr size_t kMaxDeviceGroups = 8;

struct DeviceGroup {
  std::string name;              // of its machines
  std::vector<int64_t> devices;  // ascending, all of one type
  DeviceTypeId type;
  int64_t machines = 1;
  double bandwidth = 0;  // between two devices of it, the farthest; 0: there is one device
  int64_t size() const { return static_cast<int64_t>(devices.size()); }
};

// In device order, at most `most`: neighbouring machines alike are put together until that is so, and then machines of a
// type wherever they are. A machine of several types is a group for each. Throws InputError where there are more types.
std::vector<DeviceGroup> FindDeviceGroups(const Cluster& cluster, size_t most = kMaxDeviceGroups);

// Bytes per second between the first devices of two groups.
double BandwidthBetween(const Cluster& cluster, const DeviceGroup& a, const DeviceGroup& b);

// The devices of those groups that are in the set, ascending.
std::vector<int64_t> DevicesIn(const std::vector<DeviceGroup>& groups, uint32_t set);

}  // namespace heddle
