// What the choices of a stage cost on one mesh, for one micro-batch on one device.
//
//   node       kernels of its halves, on the blocks of the device that has most, at the slowest kind of device; what it
//              keeps for backward
//   parameter  its elements, and the reduction of its gradient over axes of the mesh
//   reshard    the chain lowering takes (plan/reshard.h), step after step, with nothing else on the links
//
// Everything is found once: shardings are numbered, ways between two of them remembered by their numbers. The mesh may
// be a part of a larger one whose other axes split the batch and nothing else: the rules are then of that part of the
// batch, and links carry what all parts of a node put on them. Not for several threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cost/compute.h"
#include "plan/model.h"
#include "plan/reshard.h"
#include "search/prices/links.h"
#include "search/solver/problem.h"

namespace heddle {

struct CostOptions {
  int64_t parts =
      1;  // the batch is computed in so many: by micro-batches, and by axes outside the mesh
  double microbatches = 1;   // of a step: what is done once per step counts as this share
  Precision precision = {};  // of the model as it is: WithComputeType is the caller's
  SimOptions sim = {};
  const Network* network =
      nullptr;  // of the cluster with the efficiencies of `sim`, made where it is missing
  bool tied_alike =
      false;  // parameters that several blocks read, all of them want alike: stages may part them
  std::vector<std::string> whole = {};  // names of parameters that are not to be split
  bool local_statistics = false;        // Plan::local_batch_statistics
  // Per node: the one strategy that it may have; it must outlive the costs. Null: all that are worth considering.
  const std::vector<Strategy>* only = nullptr;
};

// Of a choice. Seconds and activations are those of a micro-batch, the rest of a step.
struct ChoiceCost {
  double forward = 0, backward = 0,
         weight = 0;       // seconds of the device's own work; forward again where recomputed
  double waited = 0;       // for traffic
  double queued = 0;       // seconds of traffic beside computation
  double step_queued = 0;  // ... once per step
  double activations = 0;  // bytes kept for backward
  double held = 0;         // bytes throughout
  double parameters = 0;   // elements that are trained

  double seconds() const { return forward + backward + weight + waited; }
  ChoiceCost& operator+=(const ChoiceCost& other);
  ChoiceCost& operator*=(double factor);
  bool operator==(const ChoiceCost&) const = default;
};

using ShardingId = int;  // of those a StageCosts has met

// One reader of a value: as it wants it, and as it gives the gradient back (-1: none).
struct Use {
  ShardingId wanted = -1, gradient = -1;
};

// What a node makes, or reads from other stages, that is kept for backward.
struct KeptParts {
  std::vector<size_t> operands, results;
  bool recomputed = false;  // the node runs again and keeps nothing of its own
  bool operator==(const KeptParts&) const = default;
};

class StageCosts {
 public:
  // Model and cluster must outlive it. Throws InputError as ComputeCost does.
  StageCosts(const Model& model, const Cluster& cluster, const Mesh& mesh, CostOptions options);

  const Model& model() const { return model_; }
  const Mesh& mesh() const { return mesh_; }
  const CostOptions& options() const { return options_; }
  const Rule& rule(NodeId node) const { return rules_[node.index()]; }  // of a part of the batch

  ShardingId Number(const Sharding& sharding);
  const Sharding& sharding(ShardingId id) const { return shardings_[static_cast<size_t>(id)]; }
  ShardingId Complete(ShardingId id);                // with no partial sums
  ShardingId Partial(ShardingId id, AxisMask axes);  // complete, but for sums over these

  // Once. `traffic` is kForbidden where there is no way: to a partial sum of what is split or a maximum.
  struct Way {
    double local = 0;     // seconds of slices and masks
    double traffic = 0;   // seconds of collectives
    double gathered = 0;  // of these, those of a last all-gather
    ShardingId end = -1;
    double seconds() const { return local + traffic; }
  };
  Way WayBetween(ShardingId from, ShardingId to, int64_t element_bytes,
                 ReshardEnd end = ReshardEnd::kExact);

  // A value given so, brought to all its uses and its gradient back, through the best copy.
  double RouteSeconds(ShardingId given, const std::vector<Use>& uses, int64_t element_bytes);

  ChoiceCost OfNode(NodeId node, const Strategy& strategy, const KeptParts& kept);
  ChoiceCost OfParameter(ValueId value, ShardingId stored, AxisMask reduced);
  // At the slowest kind of device: the gradient of an operand, a weight, from its factors (cost/kernel.h); a kernel that moves this much, and the optimizer's step on these elements.
  double FactorSeconds(NodeId node, const Strategy& strategy, size_t operand) const;
  double MoveSeconds(double bytes) const;
  double UpdateSeconds(double elements) const;
  double Repeats(NodeId node)
      const;  // how often a micro-batch does it: 1, or a share of what is done once per step
  bool HasKernels(NodeId node) const { return has_kernels_[node.index()]; }
  bool HasGradient(NodeId id) const;  // of one of its results

 private:
  HalfTimes KernelSeconds(const Graph& graph, const GradientFlow& flow, const Node& node,
                          const Rule& rule, const Strategy& strategy) const;
  void Join(const Graph& graph, const Node& node, const Rule& rule, std::span<const Block> blocks,
            NodeKernels& kernels) const;
  HalfTimes ExpansionSeconds(NodeId node, const Strategy& strategy, double* traffic);
  void FindMoves();
  double StepSeconds(const ReshardStep& step, int64_t element_bytes);
  double Elements(const Sharding& sharding) const;  // on the device that has most

  const Model& model_;
  Mesh mesh_;
  CostOptions options_;
  Rules rules_;
  std::vector<ComputeCost> compute_;            // by kind of device
  std::unique_ptr<const Network> own_network_;  // where none was given
  MeshLinks links_;
  size_t outer_axes_ = 0;          // of the mesh that links_ knows, before those of mesh_
  std::vector<bool> has_kernels_;  // per node
  std::vector<bool>
      moves_;  // per value: a kernel that only moves memory made it, or a view of such
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
