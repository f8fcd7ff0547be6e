// Finds classes of devices that are alike, and of groups and messages that communicate alike.
//
// The classes are the coarsest partition of devices, groups, messages and links in which members of a class have equal
// programs, equal kinds of device and blocks, and the same number of neighbours in every other class (an equitable
// partition, found by colour refinement). All members of a class do the same at the same time, so the simulator runs
// one of each.
//
// A class of groups or messages has the properties of one member, and the load of all members together on one link of
// each class that they use. The fair shares of the folded system are then those of the whole system.
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
  int64_t device = 0;  // the first device
  int64_t count = 0;
  int run = 0;
  double slow = 1;
  int alike =
      // The first class whose devices have equal work by themselves; their neighbours may differ.
      0;
};

struct GroupClass {
  int channel = 0;
  std::vector<int> members;  // classes of devices, each once
  std::vector<ClassLoad> loads;
  Pattern pattern;              // of one of the groups
  double seconds_per_byte = 0;  // per byte of volume, on idle links
  int level = 0;                // level of the links that limit it
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
  // Per class of devices and channel, the class of its group; -1 where there is none.
  std::vector<std::vector<int>> group_of;
  // Per class of devices, the classes of messages that it sends or receives.
  std::vector<IdVector<TransferId, std::vector<int>>> sends, receives;
};

// With options.fold classes are as large as possible. Without it every device, group, message and link is a class.
Classes FindClasses(const Program& program, const Cluster& cluster, const Network& network,
                    const Fabric& fabric, const SimOptions& options);

}  // namespace heddle
