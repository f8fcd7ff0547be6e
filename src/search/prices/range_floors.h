// What no choice of strategies goes below for a range of a model's units, found without trying all ranges.
//
// A *unit* is what stages are made of: the embedding, a layer, the head (plan/units.h). Of a range only what is inside counts: what passes to and from other units is the price of a cut, and
// another stage's. Equal layers in a row are a matrix from what one has at its ends to what the next has, and so many of
// them a power of it in (min, +), applied to a vector: the least for 1, 2, 3 ... layers costs one product each. Layers
// may each have another policy of recomputation: the matrix is the least of those of all policies, entry by entry.
//
// Of(a, c) >= Of(a, b) + Of(b, c), and Of(a, b) is at least the sum of its units alone.
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
  // Of units that have nothing to do with each other.
  explicit RangeFloors(const std::vector<double>& units);

  // Units [first, last).
  double Of(int first, int last) const;
  // One after the other, each alone.
  double Alone(int first, int last) const;
  int units() const { return static_cast<int>(sums_.size()) - 1; }

 private:
  friend class RangeFloorMaker;
  // Equal units [first, last): by how many there are of them, alone, with the unit before them, after them, and both.
  struct Run {
    int first = 0, last = 0;
    std::vector<double> alone, before, after, both;
  };
  std::vector<double> sums_{0};  // of units alone, those before each
  std::vector<Run> runs_;        // ascending
};

// The problems are those of one stage, of all blocks of the short model, by policy of recomputation; weighed alike.
RangeFloors FloorsOfRanges(const Model& whole, const ShortModel& small, const StageProblem& stage,
                           const std::vector<Problem>& policies, const Weights& weights);

}  // namespace heddle
