// Finds who communicates with whom in a program, and over which links: the groups of every communicator and the
// messages of every transfer, for all devices.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/collective_cost.h"
#include "cost/network.h"
#include "program/program.h"
#include "sim/options.h"

namespace heddle {

// A communicator: the groups along some axes of a mesh, those of a tied parameter, or all devices (`report`).
struct Channel {
  bool all_to_all = false;
  TiedGroupId tied = {};
  bool report = false;
};

struct CommGroup {
  int channel = 0;
  std::vector<int64_t> members;  // devices
  Pattern pattern;
};

struct CommMessage {
  TransferId transfer;
  int64_t sender = 0, receiver = 0;
  double bytes = 0;
  std::vector<LinkId> links;
  double latency = 0;
};

struct Fabric {
  std::vector<Channel> channels;
  std::vector<std::vector<int>> channel_of;  // per run and instruction; -1: none
  std::vector<CommGroup> groups;
  std::vector<CommMessage> messages;
};

// O(devices x communicators + instructions). Throws SimulationStopped.
Fabric FindFabric(const Program& program, const Network& network, const SimOptions& options);

}  // namespace heddle
