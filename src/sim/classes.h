// Devices that are alike, and what communicates as one.
//
// The coarsest partition of devices, groups, messages and links such that members of a class have equal programs,
// equal kinds of device and blocks, and equally many neighbours of every other class (an equitable partition, by
// colour refinement). All members of a class do the same at the same time, so the simulator runs one of each.
//
// Of a class of groups (or messages) stands what one of them is, and what all of them together put on one link of
// each class they use: the fair shares of the folded system are those of the whole one.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric.h"
#include "sim/options.h"

namespace heddle {

struct ClassLoad {
  int link = 0;       // class of links
  double weight = 0;  // of all flows of the class on one such link, per byte of volume
};

struct DeviceClass {
  int64_t device = 0;  // the first of them
  int64_t count = 0;
  int run = 0;
  double slow = 1;
  int alike =
      0;  // the first class whose devices do by themselves what these do: neighbours may differ
};

struct GroupClass {
  int channel = 0;
  std::vector<int> members;  // classes of devices, each once
  std::vector<ClassLoad> loads;
  Pattern pattern;              // of one of them
  double seconds_per_byte = 0;  // of volume, with nothing else on the links
  int level = 0;                // of the links that limit it
};

struct MessageClass {
  TransferId transfer;
  int sender = 0, receiver = 0;  // classes of devices
  double bytes = 0;
  double latency = 0;
  std::vector<ClassLoad> loads;
  int level = 0;
};

struct Classes {
  std::vector<int> class_of;  // per device
  std::vector<DeviceClass> devices;
  std::vector<double> capacities;  // per class of links
  std::vector<GroupClass> groups;
  std::vector<MessageClass> messages;
  // Per class of devices and channel: the class of its group, or -1.
  std::vector<std::vector<int>> group_of;
  // Per class of devices: the classes of messages it sends, or gets.
  std::vector<IdVector<TransferId, std::vector<int>>> sends, receives;
};

// With options.fold every class is as large as can be; without, every device, group, message and link is one.
Classes FindClasses(const Program& program, const Cluster& cluster, const Network& network,
                    const Fabric& fabric, const SimOptions& options);

}  // namespace heddle
