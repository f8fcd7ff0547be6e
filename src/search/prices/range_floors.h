// Lower bounds on the cost of any range of a model's units, for all strategies, without examining
// every range.
//
// A unit is what stages consist of: the embedding, a layer or the head (plan/units.h). Only costs
// inside the range count; traffic to other units is the cost of a cut and belongs to another stage.
// A run of equal layers is a matrix from the state at a layer's end to the state at the next one's
// end; n layers are its n-th power in (min, +), applied to a vector, so the bounds for 1, 2, 3 ...
// layers take one product each. Every layer may have its own recomputation policy: the matrix is
// the entry-wise minimum over the policies.
//
// Of(a, c) >= Of(a, b) + Of(b, c), and Of(a, b) is at least the sum of its separate units.
#pragma once

#include <vector>

#include "plan/units.h"
#include "search/prices/short_model.h"
#include "search/prices/stage_problem.h"
#include "search/solver/problem.h"

namespace heddle {

class RangeFloors {
 public:
  RangeFloors() = default;
  // For units that do not interact.
  explicit RangeFloors(const std::vector<double>& units);

  // The bound for units [first, last).
  double Of(int first, int last) const;
  // The sum of the bounds of the separate units.
  double Alone(int first, int last) const;
  int units() const { return static_cast<int>(sums_.size()) - 1; }

 private:
  friend class RangeFloorMaker;
  // A run of equal units [first, last): bounds by the number of its units that the range has; by
  // themselves, with the unit before the run, with the unit after it, and with both.
  struct Run {
    int first = 0, last = 0;
    std::vector<double> alone, before, after, both;
  };
  std::vector<double> sums_{0};  // prefix sums of the separate units
  std::vector<Run> runs_;        // in ascending order
};

// The problems are those of one stage with all blocks of the short model, one per recomputation
// policy, under the same weights.
RangeFloors FloorsOfRanges(const Model& whole, const ShortModel& small, const StageProblem& stage,
                           const std::vector<Problem>& policies, const Weights& weights);

}  // namespace heddle
