// What collectives over the axes of a mesh take on a cluster.
//
// All groups of an axis do the same at the same time, so a link carries what all of them put on it. Found once per set
// of axes.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

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

// The messages of a pipeline: every device of a stage sends as many bytes to its counterpart in the next stage, forward, and
// gets as many back, backward. Stages have so many devices each, one stage after the other.
class PipelineLinks {
 public:
  // O(routes log routes), at most some thousand of them: long pipelines repeat themselves.
  PipelineLinks(const Network& network, int64_t mesh, int64_t stages);

  // Seconds of the messages from a device of the pipeline to the next; the last one's go to the first.
  double Transfer(int64_t device, double bytes) const;
  // Per device of the pipeline, as PipelineShape has them.
  std::vector<double> Transfers(double bytes) const;
  // Seconds for which the messages of one micro-batch, in both directions, occupy the link that they occupy longest.
  double Occupied(int64_t chunks, double bytes) const;

  // Links that messages share, by number; those that the same messages pass are one.
  struct Use {
    int resource = 0;
    double per_byte = 0;  // seconds
  };
  // Of the messages between a device of the pipeline and the next, one way. Only if `has_uses`: not of long pipelines.
  const std::vector<Use>& Uses(int64_t device, bool forward) const {
    return uses_[static_cast<size_t>(2 * device + (forward ? 0 : 1))];
  }
  bool has_uses() const { return !uses_.empty(); }
  size_t resources() const { return loads_.size(); }

 private:
  struct Hop {
    double latency = 0, per_byte = 0;  // seconds; per byte that a device sends
  };
  struct Load {
    double between = 0,
           around = 0;  // seconds per byte: between neighbours; from the last to the first
  };
  // Seconds per byte of one link, by who sends: 2 x device, and 1 more for what is sent back.
  using Senders = std::vector<std::pair<int64_t, double>>;
  void AddLink(const Senders& senders);

  int64_t stages_;
  std::vector<Hop> hops_;
  Hop around_;
  std::set<Senders> known_;
  std::vector<Load> loads_;             // of links
  std::vector<std::vector<Use>> uses_;  // by 2 x device, and 1 more for what is sent back
};

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
