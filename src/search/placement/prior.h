// The seam between the tree search and what it has learned: how promising each action is for the next decision.
//
// What is known of a problem goes in as plain numbers: of both graphs, the model's units and the cluster's device groups,
// once for a problem; and of a prefix, what is decided and what the simulator said of it. `learn` has the network behind
// this; without one every action is as likely as any other.
#pragma once

#include <memory>
#include <vector>

#include "search/placement/placement.h"
#include "search/placement/tree_search.h"

namespace heddle {

// Row-major. Times are shares of the norm of all units' mean times (CL2), bandwidths of the largest, sizes of what the
// largest bandwidth moves in CL2.
struct PlacementGraph {
  static constexpr size_t kUnitFeatures = 4;   // mean seconds at the batch, /2, /4, /8
                                               // ... and see unit_sizes
  static constexpr size_t kSizeFeatures = 2;   // bytes of parameters, bytes handed on
  static constexpr size_t kGroupFeatures = 3;  // devices / 4, memory in sizes, bandwidth inside
  static constexpr size_t kPlaceFeatures = 4;  // seconds of the unit on one device of the group

  size_t units = 0, groups = 0, decisions = 0;
  std::vector<float> unit_times;   // units x 4
  std::vector<float> unit_sizes;   // units x 2
  std::vector<float> group_sizes;  // groups x 3
  std::vector<float> links;        // groups x groups: bandwidth
  std::vector<float> places;       // units x groups x 4
  std::vector<float> flows;        // units x units: bytes the column reads of what the row makes
  std::vector<int> decision_of;    // per unit
  std::vector<Action> actions;
};

struct PrefixState {
  Prefix prefix;
  PlacementStrategy strategy;     // as the prefix is completed
  std::vector<float> group_busy;  // share of the step each group's devices compute, of the busiest
  std::vector<float> group_memory;  // peak over what there is
  float value = 0;                  // as the tree has it
};

PlacementGraph GraphOf(const Placements& space);

class Prior {
 public:
  virtual ~Prior() = default;
  // For each state a probability for each action.
  virtual std::vector<std::vector<double>> Of(const PlacementGraph& graph,
                                              const std::vector<PrefixState>& states) = 0;
};

// All actions alike.
std::unique_ptr<Prior> UniformPrior();

}  // namespace heddle
