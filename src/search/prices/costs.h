// Costs of the choices of a stage on one mesh, for one micro-batch on one device.
//
//   node       kernels of its halves, for the largest local blocks on the slowest kind of device; bytes kept for backward
//   parameter  its elements, and the reduction of its gradient over axes of the mesh
//   reshard    the steps that lowering takes (plan/reshard.h), one after the other, on otherwise idle links
//
// Everything is computed once: shardings are numbered, and conversions are cached by these numbers.
// The mesh may be a part of a larger one whose other axes only split the batch. Then the rules are
// those of this part of the batch, and links carry the traffic of all parts of a machine. Not
// thread-safe.
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
      1;  // the number of parts that micro-batches and axes outside the mesh divide the batch into
  double microbatches = 1;   // of a step: work done once per step counts as one share
  Precision precision = {};  // for the model as it is; WithComputeType is up to the caller
  SimOptions sim = {};
  const Network* network =
      nullptr;  // the cluster's network with the efficiencies of `sim`; null: made here
  bool tied_alike =
      false;  // all readers of a parameter must want it alike, because a cut may separate them
  std::vector<std::string> whole = {};  // names of parameters that must not be split
  bool local_statistics = false;        // Plan::local_batch_statistics
  // Per node: the only strategy that it may have; must outlive the costs. Null: all that are worth
  // considering.
  const std::vector<Strategy>* only = nullptr;
};

// The cost of one choice. Seconds and activations are per micro-batch, the rest is per step.
struct ChoiceCost {
  // Seconds of the device's own work; backward includes forward again where recomputed.
  double forward = 0, backward = 0, weight = 0;
  double waited = 0;       // seconds of traffic that computation waits for
  double queued = 0;       // seconds of traffic beside computation
  double step_queued = 0;  // the same once per step
  double activations = 0;  // bytes kept for backward
  double held = 0;         // bytes held throughout the step
  double parameters = 0;   // trained elements

  double seconds() const { return forward + backward + weight + waited; }
  ChoiceCost& operator+=(const ChoiceCost& other);
  ChoiceCost& operator*=(double factor);
  bool operator==(const ChoiceCost&) const = default;
};

using ShardingId = int;  // index among those that a StageCosts has seen

// One reader of a value: the sharding that it wants, and that of the gradient it returns (-1:
// none).
struct Use {
  ShardingId wanted = -1, gradient = -1;
};

// The operands and results of a node that are kept for backward and charged to it.
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
  const Rule& rule(NodeId node) const { return rules_[node.index()]; }  // for a part of the batch

  ShardingId Number(const Sharding& sharding);
  const Sharding& sharding(ShardingId id) const { return shardings_[static_cast<size_t>(id)]; }
  ShardingId Complete(ShardingId id);                // without partial sums
  ShardingId Partial(ShardingId id, AxisMask axes);  // partial sums over exactly these axes

  // A conversion done once. `traffic` is kForbidden where none exists: to a partial sum of what is
  // split, or to a maximum.
  struct Way {
    double local = 0;     // seconds of slices and masks
    double traffic = 0;   // seconds of collectives
    double gathered = 0;  // of these, seconds of the last step if it is an all-gather
    ShardingId end = -1;
    double seconds() const { return local + traffic; }
  };
  Way WayBetween(ShardingId from, ShardingId to, int64_t element_bytes,
                 ReshardEnd end = ReshardEnd::kExact);

  // The least time to bring a value to all its uses and its gradient back, over the possible
  // copies.
  double RouteSeconds(ShardingId given, const std::vector<Use>& uses, int64_t element_bytes);

  ChoiceCost OfNode(NodeId node, const Strategy& strategy, const KeptParts& kept);
  ChoiceCost OfParameter(ValueId value, ShardingId stored, AxisMask reduced);
  // On the slowest kind of device: the gradient of an operand, a weight, computed from its factors
  // (cost/kernel.h); a kernel that moves this many bytes; the optimizer's update of these elements.
  double FactorSeconds(NodeId node, const Strategy& strategy, size_t operand) const;
  double MoveSeconds(double bytes) const;
  double UpdateSeconds(double elements) const;
  double Repeats(NodeId node)
      const;  // how often a micro-batch executes the node: once, or a share of once per step
  bool HasKernels(NodeId node) const { return has_kernels_[node.index()]; }
  bool HasGradient(NodeId id) const;  // whether one of its results has a gradient

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
  std::vector<ComputeCost> compute_;            // per kind of device
  std::unique_ptr<const Network> own_network_;  // if none was given
  MeshLinks links_;
  size_t outer_axes_ = 0;          // axes of the mesh of links_ that precede those of mesh_
  std::vector<bool> has_kernels_;  // per node
  std::vector<bool>
      moves_;  // per value: made by a kernel that only moves memory, or a view of such a value
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
