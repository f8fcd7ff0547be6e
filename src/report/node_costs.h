// What every node of a plan costs for one micro-batch on one device, read off a simulated step: the kernels of its
// halves, the collectives on its account, what it keeps for backward. The device is the first of the node's stage.
//
// A collective is on the account of the node whose split makes it necessary: reduced partial sums on that of the node
// that made them (a product split by rows; in backward one split by columns), values gathered or exchanged on that of
// the node that wants them so.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"

namespace heddle {

struct NodeTraffic {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string axes;  // of the mesh: "tp", "dp x tp"
  bool backward = false;
  int64_t bytes = 0;   // given by a device
  double seconds = 0;  // from its start to its end, mean over the micro-batches
  double times = 1;    // in a micro-batch; of what is done once per step a share
  bool IsLike(const NodeTraffic& other) const;  // but for seconds and times
};

struct NodeCost {
  // Seconds of kernels, of slices before them, of sums of gradients.
  double forward = 0;
  double backward = 0;    // both halves
  double recomputed = 0;  // forward again
  std::vector<NodeTraffic> traffic;
  double kept = 0;  // bytes from forward to backward

  double compute() const { return forward + backward + recomputed; }
  double traffic_seconds() const;
  NodeCost& operator+=(const NodeCost& other);  // traffic that is alike becomes one entry
  NodeCost& operator*=(double factor);
};

// Per node of the plan's model, which has `nodes`.
std::vector<NodeCost> CostsOfNodes(const Program& program, const Cluster& cluster,
                                   const Simulation& simulation, const SimOptions& options,
                                   size_t nodes);

// What else a device puts on links in a step: weights, gradients, what passes between stages.
struct StepTraffic {
  std::string what;  // an opcode
  std::string axes;  // empty: between stages, or over all devices
  int64_t count = 0;
  double bytes = 0, seconds = 0;  // of all of them
};
std::vector<StepTraffic> OtherTraffic(const Program& program, const Simulation& simulation,
                                      int64_t device);

// "dp x tp".
std::string AxesText(const Mesh& mesh, AxisMask axes);

}  // namespace heddle
