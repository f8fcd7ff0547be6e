// The interface between the tree search and the learned network: the probability of each action for
// the next decision.
//
// A problem is described by plain numbers: once per problem both graphs, of the model's units and
// of the cluster's device groups; per prefix, the decisions and the simulator's result. `learn`
// implements this interface with a network; without one all actions are equally likely.
#pragma once

#include <memory>
#include <vector>

#include "search/placement/placement.h"
#include "search/placement/tree_search.h"

namespace heddle {

// Row-major. Times are relative to the Euclidean norm of all units' mean times (CL2), bandwidths to
// the largest one, and sizes to what the largest bandwidth transfers in CL2.
struct PlacementGraph {
  static constexpr size_t kUnitFeatures = 4;   // mean seconds at the batch, /2, /4, /8
  static constexpr size_t kSizeFeatures = 2;   // bytes of parameters, bytes handed on
  static constexpr size_t kGroupFeatures = 3;  // devices / 4, memory in sizes, bandwidth inside
  static constexpr size_t kPlaceFeatures = 4;  // seconds of the unit on one device of the group

  size_t units = 0, groups = 0, decisions = 0;
  std::vector<float> unit_times;   // units x 4
  std::vector<float> unit_sizes;   // units x 2
  std::vector<float> group_sizes;  // groups x 3
  std::vector<float> links;        // groups x groups: bandwidth
  std::vector<float> places;       // units x groups x 4
  std::vector<float> flows;        // units x units: bytes that the column reads from the row
  std::vector<int> decision_of;    // per unit
  std::vector<Action> actions;
};

struct PrefixState {
  Prefix prefix;
  PlacementStrategy strategy;  // as the prefix is completed
  // Share of the step in which each group's devices compute, relative to the busiest.
  std::vector<float> group_busy;
  std::vector<float> group_memory;  // peak relative to capacity
  float value = 0;                  // as in the tree
};

PlacementGraph GraphOf(const Placements& space);

class Prior {
 public:
  virtual ~Prior() = default;
  // For each state a probability for each action.
  virtual std::vector<std::vector<double>> Of(const PlacementGraph& graph,
                                              const std::vector<PrefixState>& states) = 0;
};

// All actions equally likely.
std::unique_ptr<Prior> UniformPrior();

}  // namespace heddle
