// Times of collectives over the axes of a mesh on a cluster, and of messages between pipeline
// stages. All groups of an axis communicate at the same time, so a link carries the traffic of all
// of them. Computed once per set of axes.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cost/collective_cost.h"
#include "plan/mesh.h"
#include "sim/options.h"

namespace heddle {

// The time of a message between devices of two stages.
struct MessageTime {
  double latency = 0, flow = 0;  // seconds
  double seconds() const { return latency + flow; }
};

// Every device of a mesh with `mesh` devices sends `bytes` to the device `distance` after it, all
// at the same time, so that they share the links out of a machine.
MessageTime TimeOfMessages(const Network& network, int64_t distance, int64_t mesh, double bytes);

// The messages of a pipeline. In forward every device of a stage sends to its counterpart in the
// next stage, in backward it receives as many bytes. Stages are adjacent and have `mesh` devices
// each.
class PipelineLinks {
 public:
  // O(routes log routes) for at most some thousand routes: longer pipelines repeat themselves.
  PipelineLinks(const Network& network, int64_t mesh, int64_t stages);

  // Seconds of the messages from a device of the pipeline to the next. The last device sends to the
  // first.
  double Transfer(int64_t device, double bytes) const;
  // Per device of the pipeline, as in PipelineShape.
  std::vector<double> Transfers(double bytes) const;
  // Seconds for which the messages of one micro-batch, in both directions, occupy the busiest link.
  double Occupied(int64_t chunks, double bytes) const;

  // Links that messages share, by number. Links with the same messages are one resource.
  struct Use {
    int resource = 0;
    double per_byte = 0;  // seconds
  };
  // For messages in one direction between a device of the pipeline and the next. Only if
  // `has_uses`; long pipelines have none.
  const std::vector<Use>& Uses(int64_t device, bool forward) const {
    return uses_[static_cast<size_t>(2 * device + (forward ? 0 : 1))];
  }
  bool has_uses() const { return !uses_.empty(); }
  size_t resources() const { return loads_.size(); }

 private:
  struct Hop {
    double latency = 0, per_byte = 0;  // seconds; seconds per byte that a device sends
  };
  struct Load {
    double between = 0,
           around = 0;  // seconds per byte: between neighbours; from the last to the first
  };
  // Seconds per byte on one link, by sender: 2 x device, plus 1 for messages in backward.
  using Senders = std::vector<std::pair<int64_t, double>>;
  void AddLink(const Senders& senders);

  int64_t stages_;
  std::vector<Hop> hops_;
  Hop around_;
  std::set<Senders> known_;
  std::vector<Load> loads_;             // per resource
  std::vector<std::vector<Use>> uses_;  // by 2 x device, plus 1 for messages in backward
};

class MeshLinks {
 public:
  // The network must outlive it.
  MeshLinks(const Network& network, const Mesh& mesh);

  // `bytes` is what a member of the group contributes (plan/collective.h). 0 for groups of one.
  double Seconds(CollectiveKind kind, AxisMask axes, double bytes);
  // Without latency: as a part of a larger collective.
  double BandwidthSeconds(CollectiveKind kind, AxisMask axes, double bytes);

 private:
  struct Traffic {
    Pattern pattern;  // of the group with the longest ring
    double seconds_per_byte = 0;
  };
  const Traffic& TrafficOf(AxisMask axes, bool all_to_all);
  CollectiveCost CostOf(CollectiveKind kind, const Traffic& traffic, double bytes) const;

  Mesh mesh_;
  const Network& network_;
  std::map<std::pair<AxisMask, bool>, Traffic> traffic_;
};

}  // namespace heddle
