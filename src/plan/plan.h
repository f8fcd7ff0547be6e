// A plan: every choice about how a model is trained on a cluster, and nothing else. Search makes plans, lowering
// turns them into programs, executors run those.
//
//   stages            ranges of the model's blocks (plan/model.h), each on a mesh; stages on the same devices are
//                     the chunks of an interleaved pipeline
//   strategies        what each node does with each axis of its stage's mesh (plan/sharding.h)
//   everything else   batch, micro-batches, schedule, precision, ZeRO, offload, recomputation, bucket sizes
//
// In memory every node has a strategy; the file states one per node of a unique block, and the exceptions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"
#include "graph/dtype.h"
#include "plan/mesh.h"
#include "plan/model.h"
#include "plan/policies.h"
#include "plan/pruning.h"
#include "plan/sharding.h"

namespace heddle {

constexpr int kPlanVersion = 1;

// Seconds, or any other unit, of a stage's halves for one micro-batch: what a schedule orders by.
struct HalfTimes {
  double forward = 1, backward = 1, weight = 1;
  bool operator==(const HalfTimes&) const = default;
};

struct Stage {
  int first_block = 0, last_block = 0;  // [first, last) of Model::blocks
  Mesh mesh;
  std::vector<Strategy>
      strategies;  // per node of the graph; empty for nodes that are not the stage's
  std::vector<RecomputePolicy> recompute;  // per block of the stage
  HalfTimes times;
  std::map<ValueId, GradientSync> sync;  // of parameters; those that are not there: kReduce
  // With Offload::kAll: the blocks with which another shard begins, ascending. Empty: all of the stage is one.
  std::vector<int> shard_starts;
  bool operator==(const Stage&) const = default;
};

// What matrix products multiply: numbers of the compute type, or fp8 made of them on the way in. fp8 changes the
// rate of products and nothing that is stored or sent.
enum class Products : uint8_t { kAsCompute, kFp8 };
constexpr std::array<std::string_view, 2> kProductNames = {"as compute", "fp8"};

struct Precision {
  DType compute = DType::kF32;    // of weights and activations in forward and backward
  DType gradients = DType::kF32;  // of parameters, as they are kept and reduced
  DType master = DType::kF32;     // of the weights that are updated
  DType moments = DType::kF32;
  Products products = Products::kAsCompute;
  int moments_kept = 2;  // of every weight, by the optimizer (SetOptimizer)
  bool operator==(const Precision&) const = default;
};

constexpr std::array<std::string_view, 4> kOptimizers = {"adamw", "adam", "momentum", "sgd"};

// Moments an optimizer keeps of every weight.
constexpr int MomentsOf(std::string_view optimizer) {
  return optimizer == "sgd" ? 0 : optimizer == "momentum" ? 1 : 2;
}

// ZeRO: 0 nothing, 1 optimizer state, 2 and gradients, 3 and weights are split over the named axes, of those
// along which a parameter is replicated.
struct Zero {
  int level = 0;
  std::vector<std::string> axes;
  bool operator==(const Zero&) const = default;
};

struct ModelRef {
  std::string source;  // a path relative to the plan, or a built-in expression
  uint64_t hash = 0;   // StableHash of the graph
  bool fused = true;
  std::map<std::string, int64_t> dims = {};  // sizes of symbolic dimensions, or keys of a built-in
  std::vector<std::string> frozen = {};      // patterns of parameters that are not trained
  bool operator==(const ModelRef&) const = default;
};

struct Plan {
  ModelRef model;
  Cluster cluster;
  int64_t batch = 1;
  int64_t microbatches = 1;
  std::string schedule = "1f1b";
  int chunks = 1;  // stages per run of devices
  std::vector<Stage> stages;
  Precision precision;
  std::string optimizer = "adamw";
  Zero zero;
  Offload offload = Offload::kNone;
  Pruning pruning;
  int64_t bucket_bytes = int64_t{32} << 20;  // of gradients reduced together
  int prefetch = 1;  // blocks whose weights are gathered ahead (ZeRO 3), shards that are fetched
  bool local_batch_statistics = false;
  bool search_stopped = false;  // not a choice: --budget or an interrupt came first

  bool operator==(const Plan&) const = default;
};

inline void SetOptimizer(Plan& plan, std::string_view name) {
  plan.optimizer = name;
  plan.precision.moments_kept = MomentsOf(name);
}

// The nodes of a stage's blocks, in topological order. SideNodesOf has the side nodes that they read.
std::vector<NodeId> NodesOf(const Model& model, const Stage& stage);
std::vector<NodeId> NodesAndSideNodesOf(const Model& model,
                                        const Stage& stage);  // those of the blocks first

// Which shard of a stage a block of it is in, and how many there are.
int ShardOf(const Stage& stage, int block);
int ShardCount(const Stage& stage);

// Has every device a link to the memory of its machine?
bool CanOffload(const Cluster& cluster);
// Throws InputError if the plan offloads and a device has no link to its host.
void RequireHost(const Cluster& cluster, Offload offload);

// The devices a plan uses, from 0.
int64_t DeviceCount(const Plan& plan);

}  // namespace heddle
