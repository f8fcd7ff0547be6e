// What a stage's choices cost on one mesh, as numbers that add up: seconds of a step, and bytes on a device.
//
//   node       kernels of its three halves, on the blocks of the device that has most, at the slowest kind of device
//   parameter  reducing its gradient (at the bandwidth of its axes: gradients go together) and its update;
//              weight, gradient and optimizer state are its bytes
//   reshard    the chain lowering takes (plan/reshard.h), step after step, with nothing else on the links
//
// Seconds count every micro-batch: what each does again, so many times. Everything is found once: shardings are
// numbered, ways between two of them remembered by their numbers. Not for several threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "cost/compute.h"
#include "plan/model.h"
#include "plan/reshard.h"
#include "search/links.h"
#include "search/problem.h"

namespace heddle {

struct CostOptions {
  int64_t microbatches = 1;
  double in_flight = 1;      // micro-batches whose activations are kept at a time
  Precision precision = {};  // of the model as it is: WithComputeType is the caller's
  SimOptions sim = {};
};

using ShardingId = int;  // of those a StageCosts has met

// One reader of a value: as it wants it, and as it gives the gradient back (-1: none).
struct Use {
  ShardingId wanted = -1, gradient = -1;
};

// What a node keeps for backward that no other is charged for.
struct KeptParts {
  std::vector<size_t> operands, results;
  bool operator==(const KeptParts&) const = default;
};

class StageCosts {
 public:
  // Model and cluster must outlive it. Throws InputError as ComputeCost does.
  StageCosts(const Model& model, const Cluster& cluster, const Mesh& mesh, CostOptions options);

  const Model& model() const { return model_; }
  const Mesh& mesh() const { return mesh_; }
  const CostOptions& options() const { return options_; }
  const Rule& rule(NodeId node) const { return rules_[node.index()]; }  // of a micro-batch

  ShardingId Number(const Sharding& sharding);
  const Sharding& sharding(ShardingId id) const { return shardings_[static_cast<size_t>(id)]; }
  ShardingId Complete(ShardingId id);                // with no partial sums
  ShardingId Partial(ShardingId id, AxisMask axes);  // complete, but for sums over these

  // Once. kForbidden where there is no way: to a partial sum of what is split or a maximum.
  struct Way {
    double seconds = 0;
    ShardingId end = -1;
  };
  Way WayBetween(ShardingId from, ShardingId to, int64_t element_bytes,
                 ReshardEnd end = ReshardEnd::kExact);

  // A value given so, brought to all its uses and its gradient back, through the best copy.
  double RouteSeconds(ShardingId given, const std::vector<Use>& uses, int64_t element_bytes);

  // Of a step.
  Cost OfNode(NodeId node, const Strategy& strategy, const KeptParts& kept);
  Cost OfParameter(ValueId value, ShardingId stored, AxisMask reduced);
  double Repeats(NodeId node) const;  // how often a step does it

 private:
  double KernelSeconds(const Graph& graph, const GradientFlow& flow, const Node& node,
                       const Rule& rule, const Strategy& strategy) const;
  double ExpansionSeconds(NodeId node, const Strategy& strategy);
  double StepSeconds(const ReshardStep& step, int64_t element_bytes);
  double Elements(const Sharding& sharding) const;  // on the device that has most

  const Model& model_;
  Mesh mesh_;
  CostOptions options_;
  std::vector<Rule> rules_;
  std::vector<ComputeCost> compute_;  // by kind of device
  MeshLinks links_;
  std::vector<Sharding> shardings_;
  std::unordered_map<std::string, ShardingId> numbers_;
  std::map<std::pair<ShardingId, AxisMask>, ShardingId> partials_;
  struct WayKey {
    ShardingId from, to;
    int64_t element_bytes;
    ReshardEnd end;
    bool operator==(const WayKey&) const = default;
  };
  struct WayHash {
    size_t operator()(const WayKey& key) const;
  };
  std::unordered_map<WayKey, Way, WayHash> ways_;
};

}  // namespace heddle
