// The network's input for a state of the tree search, as plain numbers: the graphs of units and device groups, the
// decisions so far, the result of the simulator, and for every action rough costs of the strategy that it leads to.
//
//   Features features = FeaturesOf(graph, state);      // for the network
//   RoughCost cost = RoughPrices(graph).Of(strategy);  // no simulation
//
// Both are equivariant in the device groups: permuted groups give the same numbers in permuted order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "search/placement/prior.h"

namespace heddle {

// In the units of PlacementGraph: seconds / CL2.
struct RoughCost {
  double serial = 0;    // compute of all units, one after the other
  double longest = 0;   // compute of the group with most work
  double sync = 0;      // synchronisation of gradients
  double transfer = 0;  // activations between units on different devices, and their gradients
  double memory = 0;    // largest (parameters and their state) / memory over all groups
};

class RoughPrices {
 public:
  // The graph must outlive it. O(sets of groups x units x groups).
  explicit RoughPrices(const PlacementGraph& graph);

  RoughCost Of(const PlacementStrategy& strategy) const;

 private:
  struct OfSet {
    double devices = 0, slowest_link = 0;
    std::vector<double> seconds;        // of each unit, with shares in proportion to speed
    std::vector<double> whole_seconds;  // of each unit, for the whole batch on the slowest device
    std::vector<double> speed;          // of each group: its part of the total speed
  };
  double SlowestLink(uint32_t set) const;
  double SyncOf(size_t unit, const Action& action, const OfSet& of) const;
  double MemoryOf(size_t unit, const Action& action, const OfSet& of, size_t group) const;

  const PlacementGraph& graph_;
  std::map<uint32_t, OfSet> sets_;
};

struct Features {
  static constexpr size_t kUnit = PlacementGraph::kUnitFeatures + PlacementGraph::kSizeFeatures +
                                  3 + kWayNames.size() + 1;  // decided, next, first; way; value
  static constexpr size_t kGroup = PlacementGraph::kGroupFeatures + 3;  // busy, memory, value
  static constexpr size_t kFlow = 2;                                    // bytes; the same action
  static constexpr size_t kLink = 2;                                    // bandwidth, twice scaled
  static constexpr size_t kPlace = PlacementGraph::kPlaceFeatures + 1;  // placed there
  static constexpr size_t kAction = kWayNames.size() + 5 + 8;           // likeness, rough prices

  size_t units = 0, groups = 0, actions = 0;
  std::vector<float> unit;    // units x kUnit
  std::vector<float> group;   // groups x kGroup
  std::vector<float> flow;    // units x units x kFlow: the edge from the row's unit to the column's
  std::vector<float> flows;   // units x units: 1 if there is an edge
  std::vector<float> link;    // groups x groups x kLink
  std::vector<float> place;   // units x groups x kPlace
  std::vector<float> next;    // units: weights of the units of the next decision, sum 1
  std::vector<float> member;  // actions x groups: 1 if the group is in the set
  std::vector<float> action;  // actions x kAction
};

// The state must have a next decision.
Features FeaturesOf(const PlacementGraph& graph, const RoughPrices& prices,
                    const PrefixState& state);

}  // namespace heddle
