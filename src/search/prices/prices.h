// Prices: what the blocks of a model cost on a mesh under their best strategies, solved once per
// mesh, micro-batch size and recomputation policy.
//
//   Prices prices(model, cluster, options);
//   const Priced* priced = prices.Of({.axes = {8}, .samples = 2});
//   priced->blocks[b].seconds(), prices.StrategiesOf(*priced)
//
// A key's mesh is a stage's mesh without the data axis, along which every node splits the batch or
// is replicated. Therefore neither the data axis nor the number of stages is part of a key. A
// parameter that several blocks read is stored in one sharding that all of them want, because a cut
// may separate these blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "search/interface/search_problem.h"
#include "search/prices/price_floors.h"
#include "search/prices/short_model.h"
#include "search/prices/stage_problem.h"

namespace heddle {

struct PriceKey {
  std::vector<int64_t> axes;  // sizes, outer axis first; at most two, each larger than 1
  int64_t samples = 1;        // of a micro-batch, on all devices of the mesh
  // Micro-batches of a step: work that is done once per step counts as one share of so many.
  double microbatches = 1;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  // The price of a kept byte and of a parameter on a device, in seconds of a micro-batch.
  double per_byte = 0, per_parameter = 0;
  auto operator<=>(const PriceKey&) const = default;
};

struct Priced {
  Mesh mesh;
  std::shared_ptr<const StageProblem> stage;  // problem of the short model
  Solution solution;
  std::vector<ChoiceCost> blocks;  // per block of the whole model
  ChoiceCost total;
};

// Solves a problem; nothing where it cannot.
using ProblemSolver =
    std::function<std::optional<Solution>(const Problem& problem, const Weights& weights)>;

struct PriceOptions {
  Precision precision;  // the model has this compute type already
  SimOptions sim;
  std::vector<std::string> whole;  // names of parameters that must not be split
  ProblemSolver solver = nullptr;  // default: SolveFolded on the short model
  bool local_statistics = false;   // Plan::local_batch_statistics
};

PriceOptions PriceOptionsOf(const SearchProblem& problem, ProblemSolver solver = nullptr);

// The mesh of a key's axes.
Mesh MeshOf(const std::vector<int64_t>& axes);

class Prices {
 public:
  // Model and cluster must outlive it.
  Prices(const Model& model, const Cluster& cluster, PriceOptions options);
  ~Prices();
  Prices(const Prices&) = delete;
  Prices& operator=(const Prices&) = delete;

  // May be called from any thread. Null where the problem cannot be solved because a table would be
  // too large.
  const Priced* Of(PriceKey key);

  // Ignores the key's prices. Never null.
  const LeastTime* LeastTimeOf(PriceKey key);
  // For these recomputation policies, the fastest first; ignores the key's policy and prices.
  const LeastMemory* LeastMemoryOf(PriceKey key, const std::vector<RecomputePolicy>& policies);
  // Lower bounds on computation, waiting, and the bytes and parameters at the key's prices
  // together, with every unit under the policy that is best for it.
  const RangeFloors* LeastPricedOf(PriceKey key, const std::vector<RecomputePolicy>& policies);

  const Model& model() const { return model_; }
  const Cluster& cluster() const { return cluster_; }
  const PriceOptions& options() const { return options_; }
  const Network& network() const { return network_; }

  // The options for costs of a batch in so many parts.
  CostOptions CostsFor(int64_t parts, double microbatches) const;

  // Per node of the whole model: its strategy on the key's mesh.
  std::vector<Strategy> StrategiesOf(const Priced& priced) const;

 private:
  std::shared_ptr<const StageProblem> StageFor(PriceKey key);
  std::shared_ptr<const StageProblem> MakeStage(const PriceKey& key);
  std::optional<Solution> Solve(const Problem& problem, const Weights& weights) const;
  std::unique_ptr<Priced> Make(const PriceKey& key);
  std::unique_ptr<LeastTime> MakeLeastTime(const PriceKey& key);
  std::unique_ptr<LeastMemory> MakeLeastMemory(const PriceKey& key,
                                               const std::vector<RecomputePolicy>& policies);
  std::vector<LeastMemory::Policies> UnitsUnderPolicies(
      const PriceKey& key, const std::vector<RecomputePolicy>& policies);
  std::unique_ptr<RangeFloors> MakeLeastPriced(const PriceKey& key,
                                               const std::vector<RecomputePolicy>& policies);
  double CutSaving(const StageProblem& stage) const;
  std::vector<double> LeastOfNodes(
      const StageProblem& stage,
      const std::function<double(size_t variable, size_t choice)>& number) const;
  std::vector<ChoiceCost> BlocksOf(const StageProblem& stage, const Solution& solution) const;

  const Model& model_;
  const Cluster& cluster_;
  PriceOptions options_;
  ShortModel short_;
  std::vector<int> units_;  // the first block of each unit, and the end of the last
  Network network_;
  std::mutex mutex_;
  template <typename Pointer>
  struct Entry {
    std::once_flag once;
    Pointer made;
  };
  template <typename Pointer>
  using ByKey = std::map<PriceKey, Entry<Pointer>>;
  struct StageMaker;                                   // shared by the stages of all policies
  ByKey<std::unique_ptr<StageMaker>> stage_makers_;    // by keys without policy and prices
  ByKey<std::shared_ptr<const StageProblem>> stages_;  // by keys without prices
  ByKey<std::unique_ptr<Priced>> made_;
  ByKey<std::unique_ptr<LeastTime>> times_;
  ByKey<std::unique_ptr<LeastMemory>> memories_;
  ByKey<std::unique_ptr<RangeFloors>> least_priced_;
};

}  // namespace heddle
