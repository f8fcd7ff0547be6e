// Placements as a game for the tree search: a prefix is completed with the action of the heaviest
// decision, made into a plan and simulated.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "search/placement/prior.h"

namespace heddle {

// The simulated result of a strategy with the best policy for it.
struct Evaluated {
  bool possible = false;  // a plan exists
  bool fits = false;
  double seconds = 0;
  Policy policy;
  std::vector<float> group_busy, group_memory;  // as in PrefixState
};

class PlacementGame : public TreeGame {
 public:
  // Both must outlive it.
  PlacementGame(const Placements& space, Prior& prior);

  size_t decisions() const override { return space_.decisions().size(); }
  size_t actions() const override { return space_.actions().size(); }
  std::vector<double> Values(const std::vector<Prefix>& prefixes) override;
  std::vector<std::vector<double>> Priors(const std::vector<Prefix>& prefixes) override;

  // The prefix, with the action of the first decision for all remaining ones.
  PlacementStrategy Completed(const Prefix& prefix) const;
  const Evaluated& Of(const PlacementStrategy& strategy) const { return known_.at(strategy); }
  double ValueOf(const Evaluated& evaluated) const;
  double baseline() const { return baseline_; }  // seconds of Everywhere(), or an approximation
  const PlacementGraph& graph() const { return graph_; }
  PrefixState StateOf(const Prefix& prefix) const;  // of a prefix that was evaluated

  // Looks for a better policy of an evaluated strategy. Simulates at most `most` plans and returns
  // their number.
  int64_t Polish(const PlacementStrategy& strategy, int64_t most);

  // Strategies that fit, the fastest first.
  std::vector<PlacementStrategy> Best(size_t most) const;

 private:
  void Evaluate(const std::vector<PlacementStrategy>& strategies);
  Evaluated Simulated(const PlacementStrategy& strategy) const;
  Evaluated Judged(Plan plan, const Policy& policy) const;

  const Placements& space_;
  Prior& prior_;
  PlacementGraph graph_;
  std::map<PlacementStrategy, Evaluated> known_;
  double baseline_ = 0;
};

}  // namespace heddle
