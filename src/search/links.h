// What collectives over the axes of a mesh take on a cluster.
//
// All groups of an axis do the same at the same time, so a link carries what all of them put on it. Found once per set
// of axes.
#pragma once

#include <map>

#include "cost/collective_cost.h"
#include "plan/mesh.h"
#include "sim/options.h"

namespace heddle {

// What a message between the devices of two stages takes.
struct MessageTime {
  double latency = 0, flow = 0;  // seconds
  double seconds() const { return latency + flow; }
};

// Every device of a mesh of so many devices sends as many bytes to the device `distance` after it, all of them at once, so
// that they share the links out of a node.
MessageTime TimeOfMessages(const Network& network, int64_t distance, int64_t mesh, double bytes);

class MeshLinks {
 public:
  // The network must outlive it.
  MeshLinks(const Network& network, const Mesh& mesh);

  // `bytes` is what a member gives (plan/collective.h). Nothing for groups of one.
  double Seconds(CollectiveKind kind, AxisMask axes, double bytes);
  // Without latency: as part of a larger one.
  double BandwidthSeconds(CollectiveKind kind, AxisMask axes, double bytes);

 private:
  struct Traffic {
    Pattern pattern;  // of the group with the longest way round
    double seconds_per_byte = 0;
  };
  const Traffic& TrafficOf(AxisMask axes, bool all_to_all);
  CollectiveCost CostOf(CollectiveKind kind, const Traffic& traffic, double bytes) const;

  Mesh mesh_;
  const Network& network_;
  std::map<std::pair<AxisMask, bool>, Traffic> traffic_;
};

}  // namespace heddle
