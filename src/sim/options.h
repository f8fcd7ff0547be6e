// What a simulation may be told besides program and cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/constants.h"

namespace heddle {

// Everything a device computes, or everything that passes its ports, takes `factor` times as long.
struct Slow {
  int64_t device = 0;
  double factor = 1;
  bool link = false;
  bool operator==(const Slow&) const = default;
};

struct SimOptions {
  StackCosts stack = FindStackCosts(kDefaultStack);
  std::vector<Slow> slow;
  std::vector<Profile> profiles;  // of kinds of devices, in place of the constants they have
  bool fold = true;               // simulate one device of each class of devices that are alike
};

// The constants of a device: of its profile, where there is one, in place of what kinds like it have.
DeviceConstants ConstantsFor(const DeviceType& type, const SimOptions& options);

// Groups whose links count as those inside a node.
bool IsInside(GroupKind kind);

// What the inner links of a cluster and those between its nodes give of their bandwidth, by level. The kind of the
// first device stands for all.
std::vector<double> LinkEfficiency(const Cluster& cluster, const SimOptions& options);

// "device=3,factor=1.5" or "link=3,factor=2". Throws InputError.
Slow ParseSlow(const std::string& text);

}  // namespace heddle
