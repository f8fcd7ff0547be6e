// Lower bounds on what the units of a model take and keep on a mesh, whatever their strategies. Prices finds them.
#pragma once

#include <vector>

#include "search/prices/range_floors.h"
#include "search/prices/unit_sums.h"

namespace heddle {

// Lower bounds per micro-batch for any strategies; each one may be attained by other strategies.
struct LeastTime {
  double whole = 0;       // seconds that all units compute and wait, as one stage
  double cut_saving = 0;  // what one cut between two units can save of `whole` at most
  RangeFloors ranges;     // the same for a range of units as a stage
  // Sums of the nodes' own work, each node under its fastest strategy: forward; forward and
  // gradients of activations; gradients of activations; gradients of activations and of parameters.
  UnitSums forward, without_weights, activation_gradients, backward;
  UnitSums parameters;                            // elements held
  double layers = 0;                              // of these, elements in layers
  FewestUnits fewest_seconds, fewest_parameters;  // of separate units
};
// Sets the last two from the others.
void FindFewest(LeastTime& time);

struct LeastMemory {
  UnitSums least;  // bytes kept under the policy that keeps least
  // Lagrangian bounds: the least of (seconds that recomputation adds + price x bytes kept) over the
  // policies of each unit.
  struct Level {
    double per_byte = 0;
    UnitSums sums;
  };
  std::vector<Level> levels;
  // A unit under each policy: seconds that recomputation adds, and bytes kept.
  struct Policies {
    std::vector<double> added, kept;
    bool operator==(const Policies&) const = default;
    // The least of added + price x kept.
    double At(double per_byte) const;
    double least() const;
  };
  Policies first, last;         // of the model's first and last unit
  std::vector<Policies> inner;  // the different ones among the other units
};

}  // namespace heddle
