// Costs of a model's blocks under the expert's strategies (plan/expert.h), as prefix sums.
//
//   ExpertPrices prices(problem);
//   const ExpertSums* sums = prices.Of({.tp = 8, .cp = 2, .samples = 1}, RecomputePolicy::kNone);
//   sums->Seconds(0, blocks)      of a micro-batch, forward and backward
//
// Costs are found on the short model (short_model.h) with the tables of the exact search
// (stage_problem.h), where every node has one strategy; about a millisecond per key. A key does not
// contain the number of stages or the data axis, except for the part of the data axis that experts
// are spread over.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "search/interface/search_problem.h"
#include "search/prices/prices.h"

namespace heddle {

struct ExpertKey {
  int64_t tp = 1, cp = 1, ep = 1;
  bool sp = false;
  int64_t samples = 1;      // of a micro-batch, on a data rank
  double microbatches = 1;  // of a step: work done once per step counts as one share
  auto operator<=>(const ExpertKey&) const = default;
};

// [b] is the sum over the blocks before b. Seconds and activations are per micro-batch on a device.
struct ExpertSums {
  std::vector<double> forward, backward, weight;  // including exposed traffic
  std::vector<double> activations, held;          // bytes kept for backward; bytes held throughout
  std::vector<double> dense, expert;              // elements of parameters; those that ep spreads
  std::vector<double> layers;
  double most_activations = 0, most_parameters = 0;  // of one block
  double outside_layers = 0;                         // of parameters outside the layers

  double Seconds(int first, int last) const {
    return Of(forward, first, last) + Of(backward, first, last) + Of(weight, first, last);
  }
  double Parameters(int first, int last) const {
    return Of(dense, first, last) + Of(expert, first, last);
  }
  static double Of(const std::vector<double>& sums, int first, int last) {
    return sums[static_cast<size_t>(last)] - sums[static_cast<size_t>(first)];
  }
};

class ExpertPrices {
 public:
  // The problem must outlive it.
  explicit ExpertPrices(const SearchProblem& problem);
  ~ExpertPrices();
  ExpertPrices(const ExpertPrices&) = delete;
  ExpertPrices& operator=(const ExpertPrices&) = delete;

  // May be called from any thread. Null where no degree applies to the model, or costs are not
  // known.
  const ExpertSums* Of(const ExpertKey& key, RecomputePolicy recompute);

  const SearchProblem& problem() const { return problem_; }
  const Network& network() const { return network_; }
  const Precision& precision() const { return precision_; }

 private:
  struct MeshPrices;
  std::unique_ptr<MeshPrices> MakePrices(const ExpertKey& key) const;
  std::unique_ptr<ExpertSums> Make(MeshPrices& mesh_prices, RecomputePolicy recompute) const;

  const SearchProblem problem_;
  Precision precision_;
  ShortModel short_;            // of the compute type
  std::vector<bool> is_layer_;  // per block of the whole model
  Network network_;
  std::mutex mutex_;
  std::map<ExpertKey, std::unique_ptr<MeshPrices>> mesh_prices_;
};

}  // namespace heddle
