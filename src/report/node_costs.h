// What every node of a plan costs for one micro-batch on one device, from a simulated step: the kernels of its
// halves, the collectives assigned to it, the bytes it saves for backward. The device is the first of the node's stage.
//
// A collective is assigned to the node whose split makes it necessary: the reduction of partial sums to the node that
// made them (a product split by rows; in backward one split by columns), a gather or an exchange to the node that reads
// its result.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"

namespace heddle {

struct NodeTraffic {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string axes;  // of the mesh: "tp", "dp x tp"
  bool backward = false;
  int64_t bytes = 0;   // that a device sends
  double seconds = 0;  // from its start to its end, mean over the micro-batches
  double times = 1;    // per micro-batch; 1 / micro-batches for what happens once per step
  bool IsLike(const NodeTraffic& other) const;  // equal but for seconds and times
};

struct NodeCost {
  // Seconds of kernels, of the slices before them, and of sums of gradients.
  double forward = 0;
  double backward = 0;    // both halves
  double recomputed = 0;  // forward again
  std::vector<NodeTraffic> traffic;
  double kept = 0;  // bytes saved for backward

  double compute() const { return forward + backward + recomputed; }
  double traffic_seconds() const;
  NodeCost& operator+=(const NodeCost& other);  // like traffic becomes one entry
  NodeCost& operator*=(double factor);
};

// The cost of each of the `nodes` nodes of the plan's model.
std::vector<NodeCost> CostsOfNodes(const Program& program, const Cluster& cluster,
                                   const Simulation& simulation, const SimOptions& options,
                                   size_t nodes);

// The other traffic of a device in a step: weights, gradients, values sent between stages.
struct StepTraffic {
  std::string what;  // the name of an opcode
  std::string axes;  // empty: between stages, or over all devices
  int64_t count = 0;
  double bytes = 0, seconds = 0;  // in total
};
std::vector<StepTraffic> OtherTraffic(const Program& program, const Simulation& simulation,
                                      int64_t device);

// "dp x tp".
std::string AxesText(const Mesh& mesh, AxisMask axes);

}  // namespace heddle
