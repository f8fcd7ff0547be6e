// What blocks of a model cost on a mesh, with the best strategies for them: solved once for each mesh, size of
// micro-batch and policy of recomputation.
//
//   Prices prices(model, cluster, options);
//   const Priced* priced = prices.Of({.axes = {8}, .samples = 2});
//   priced->blocks[b].seconds(), priced->Strategies(...)
//
// The mesh is what is left of a stage's mesh without its data axis: along that every node splits the batch, or does the
// same everywhere. The data axis and the number of stages are therefore no part of a key. Parameters that several blocks
// read are stored as all of them want: stages may part these blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "search/interface/search_problem.h"
#include "search/prices/range_floors.h"
#include "search/prices/short_model.h"
#include "search/prices/stage_problem.h"
#include "search/prices/unit_sums.h"

namespace heddle {

struct PriceKey {
  std::vector<int64_t> axes;  // sizes, outer first; at most two, none of 1
  int64_t samples = 1;        // of a micro-batch, on all of these devices
  double microbatches = 1;  // of a step: what is made once counts as that share, of many as nothing
  RecomputePolicy recompute = RecomputePolicy::kNone;
  // Seconds of a micro-batch that a byte it keeps, and a parameter on a device, are worth.
  double per_byte = 0, per_parameter = 0;
  auto operator<=>(const PriceKey&) const = default;
};

struct Priced {
  Mesh mesh;
  std::shared_ptr<const StageProblem> stage;  // of the short model
  Solution solution;
  std::vector<ChoiceCost> blocks;  // per block of the whole model
  ChoiceCost total;
};

// What no strategies go below, each by itself, per micro-batch.
struct LeastTime {
  double whole = 0;    // seconds computed and waited for by all units, as one stage
  double seam = 0;     // of these, what a cut between two units may save
  RangeFloors ranges;  // of a range of units, as a stage
  // Of the nodes' own work, every node as fast as it can be: forward; forward and gradients of activations; gradients of
  // activations; gradients of activations and parameters.
  UnitSums forward, without_weights, activation_gradients, backward;
  UnitSums parameters;                            // elements held
  double layers = 0;                              // of these, those of layers
  FewestUnits fewest_seconds, fewest_parameters;  // of units alone
};
// Sets the last two from the others.
void FindFewest(LeastTime& time);

struct LeastMemory {
  UnitSums least;  // bytes kept, whatever is recomputed
  // What recomputing adds to the least time, and what is then still kept at this price for a byte: added + price x bytes,
  // under the best policy for each unit.
  struct Level {
    double per_byte = 0;
    UnitSums sums;
  };
  std::vector<Level> levels;
  // A unit by policy: seconds that recomputing adds, and bytes kept.
  struct Policies {
    std::vector<double> added, kept;
    bool operator==(const Policies&) const = default;
    // The least of added + price x kept.
    double At(double per_byte) const;
    double least() const;
  };
  Policies first, last;         // of the first and the last unit
  std::vector<Policies> inner;  // of the others, each kind once
};

// Solves a problem; nothing where it cannot.
using ProblemSolver =
    std::function<std::optional<Solution>(const Problem& problem, const Weights& weights)>;

struct PriceOptions {
  Precision precision;  // the model is of its compute type already
  SimOptions sim;
  std::vector<std::string> whole;  // names of parameters that are not to be split
  ProblemSolver solver = nullptr;  // default: SolveFolded, on the shortened model
  bool local_statistics = false;   // Plan::local_batch_statistics
};

PriceOptions PriceOptionsOf(const SearchProblem& problem, ProblemSolver solver = nullptr);

// Of a key's axes.
Mesh MeshOf(const std::vector<int64_t>& axes);

class Prices {
 public:
  // Model and cluster must outlive it.
  Prices(const Model& model, const Cluster& cluster, PriceOptions options);
  ~Prices();
  Prices(const Prices&) = delete;
  Prices& operator=(const Prices&) = delete;

  // From any thread. Null where none is known: a table too large.
  const Priced* Of(PriceKey key);

  // Whatever a byte is worth. Never null.
  const LeastTime* LeastTimeOf(PriceKey key);
  // Of some policies of recomputation, the first of which takes least time; whatever the key's is.
  const LeastMemory* LeastMemoryOf(PriceKey key, const std::vector<RecomputePolicy>& policies);
  // Seconds computed and waited for, and what the key says bytes and parameters are worth, together; every unit under the
  // policy that suits it.
  const RangeFloors* LeastPricedOf(PriceKey key, const std::vector<RecomputePolicy>& policies);

  const Model& model() const { return model_; }
  const Cluster& cluster() const { return cluster_; }
  const PriceOptions& options() const { return options_; }
  const Network& network() const { return network_; }

  // How the costs of a batch in so many parts are found.
  CostOptions CostsFor(int64_t parts, double microbatches) const;

  // Per node of the whole model: what it does with the axes of the key's mesh.
  std::vector<Strategy> StrategiesOf(const Priced& priced) const;

 private:
  std::shared_ptr<const StageProblem> StageFor(PriceKey key);
  std::shared_ptr<const StageProblem> MakeStage(const PriceKey& key);
  std::optional<Solution> Solve(const Problem& problem, const Weights& weights) const;
  std::unique_ptr<Priced> Make(const PriceKey& key);
  std::unique_ptr<LeastTime> MakeLeastTime(const PriceKey& key);
  std::unique_ptr<LeastMemory> MakeLeastMemory(const PriceKey& key,
                                           const std::vector<RecomputePolicy>& policies);
  std::unique_ptr<RangeFloors> MakeLeastPriced(const PriceKey& key,
                                               const std::vector<RecomputePolicy>& policies);
  double SeamOf(const StageProblem& stage) const;
  std::vector<double> LeastOfNodes(
      const StageProblem& stage,
      const std::function<double(size_t variable, size_t choice)>& number) const;
  std::vector<ChoiceCost> BlocksOf(const StageProblem& stage, const Solution& solution) const;

  const Model& model_;
  const Cluster& cluster_;
  PriceOptions options_;
  ShortModel small_;
  std::vector<int> units_;  // where they begin, and where the last one ends
  Network network_;
  std::mutex mutex_;
  template <typename Pointer>
  struct Entry {
    std::once_flag once;
    Pointer made;
  };
  template <typename Pointer>
  using ByKey = std::map<PriceKey, Entry<Pointer>>;
  struct StageMaker;                                   // for the stages of all policies
  ByKey<std::unique_ptr<StageMaker>> stage_makers_;    // by keys without policy and worth
  ByKey<std::shared_ptr<const StageProblem>> stages_;  // nothing being worth anything
  ByKey<std::unique_ptr<Priced>> made_;
  ByKey<std::unique_ptr<LeastTime>> times_;
  ByKey<std::unique_ptr<LeastMemory>> memories_;
  ByKey<std::unique_ptr<RangeFloors>> least_priced_;
};

}  // namespace heddle
