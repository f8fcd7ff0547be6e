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

// "device=3,factor=1.5" or "link=3,factor=2". Throws InputError.
Slow ParseSlow(const std::string& text);

}  // namespace heddle
