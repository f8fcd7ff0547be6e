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

#include "search/short_model.h"
#include "search/stage_problem.h"

namespace heddle {

struct PriceKey {
  std::vector<int64_t> axes;  // sizes, outer first; at most two, none of 1
  int64_t samples = 1;        // of a micro-batch, on all of these devices
  double microbatches =
      1;  // of a step: what is made once counts as that share (with 8 and more as nothing)
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

// Numbers of blocks added up: of the layers, and of what is before and after them.
struct LayerSums {
  double before = 0, after = 0;
  double layers = 0, count = 0;
  double mean() const { return count > 0 ? layers / count : 0; }
  double total() const { return before + layers + after; }
};

// What no strategies go below, each by itself. Layers may differ; their sum is the least.
struct LeastTime {
  LayerSums seconds;  // computed and waited for
  double seam = 0;    // that a cut between layers may save
  // Of the nodes' own work, every node as fast as it can be: forward; and without the gradients of parameters.
  LayerSums forward, without_weights;
};
struct LeastRoom {
  LayerSums activations, parameters;  // bytes kept, elements held
};

// Solves a problem; nothing where it cannot.
using ProblemSolver =
    std::function<std::optional<Solution>(const Problem& problem, const Weights& weights)>;

struct PriceOptions {
  Precision precision;  // the model is of its compute type already
  SimOptions sim;
  std::vector<std::string> whole;  // names of parameters that are not to be split
  ProblemSolver solver = nullptr;  // default: SolveFolded, on the shortened model
};

// Of a key's axes.
Mesh MeshOf(const std::vector<int64_t>& axes);

class Prices {
 public:
  // Model and cluster must outlive it.
  Prices(const Model& model, const Cluster& cluster, PriceOptions options);
  ~Prices();
  Prices(const Prices&) = delete;
  Prices& operator=(const Prices&) = delete;

  // From any thread. Null where there is no solution: a table too large.
  const Priced* Of(PriceKey key);

  // Whatever a byte is worth.
  const LeastTime* LeastTimeOf(PriceKey key);
  const LeastRoom* LeastRoomOf(PriceKey key);
  // Seconds computed and waited for, and what the key says bytes and parameters are worth, together.
  const LayerSums* LeastWorthOf(PriceKey key);

  const Model& model() const { return model_; }
  const Cluster& cluster() const { return cluster_; }
  const PriceOptions& options() const { return options_; }
  const Network& network() const { return network_; }

  // How the costs of a batch in so many parts are found.
  CostOptions CostsFor(int64_t parts, double microbatches) const;

  // Per node of the whole model: what it does with the axes of the key's mesh.
  std::vector<Strategy> StrategiesOf(const Priced& priced) const;

 private:
  PriceKey Normal(PriceKey key) const;
  std::shared_ptr<const StageProblem> StageFor(PriceKey key);
  std::shared_ptr<const StageProblem> MakeStage(const PriceKey& key);
  std::optional<Solution> Solve(const Problem& problem, const Weights& weights) const;
  std::unique_ptr<Priced> Make(const PriceKey& key);
  std::unique_ptr<LeastTime> MakeLeastTime(const PriceKey& key);
  std::unique_ptr<LeastRoom> MakeLeastRoom(const PriceKey& key);
  std::unique_ptr<LayerSums> MakeLeastWorth(const PriceKey& key);
  LayerSums SumsOf(const StageProblem& stage, const Solution& solution,
                   const std::function<double(const ChoiceCost&)>& number) const;
  LayerSums LeastOfNodes(const StageProblem& stage,
                         const std::function<double(const ChoiceCost&)>& number) const;
  LayerSums Summed(const std::vector<double>& blocks) const;
  std::vector<ChoiceCost> BlocksOf(const StageProblem& stage, const Solution& solution) const;

  const Model& model_;
  const Cluster& cluster_;
  PriceOptions options_;
  ShortModel small_;
  Network network_;
  std::mutex mutex_;
  struct Workshop;                                           // for the stages of all policies
  std::map<PriceKey, std::unique_ptr<Workshop>> workshops_;  // by keys without policy and worth
  std::map<PriceKey, std::shared_ptr<const StageProblem>> stages_;  // nothing being worth anything
  std::map<PriceKey, std::unique_ptr<Priced>> made_;
  std::map<PriceKey, std::unique_ptr<LeastTime>> times_;
  std::map<PriceKey, std::unique_ptr<LeastRoom>> rooms_;
  std::map<PriceKey, std::unique_ptr<LayerSums>> worths_;
};

}  // namespace heddle
