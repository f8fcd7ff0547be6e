// A lower bound for work that is waited for and traffic that goes on beside it.
//
//   min of max(S, Q) over x that fit
//     >=  max over t in [0, 1], m >= 0 of  min over x of  (1-t) S + t Q + m (bytes - limit)
//
// where S are x's seconds and Q its queued seconds. For a given t the inner maximum is the dual (dual.h); as a function
// of t it is concave, and where the dual ends between two choices, their mixture that has just the limit's bytes is a
// line in t above it. The largest value lies where a rising and a falling line cross, found as the dual's own.
#pragma once

#include <cstdint>
#include <optional>

#include "search/problem.h"

namespace heddle {

struct QueueBounds {
  double lower_bound = -kForbidden;  // kForbidden where nothing fits
  double share = 0;                  // t
  double multiplier = 0;             // m
  std::optional<Solution>
      best;  // of what was met and fits, and mixtures (repair.h); the objective is max(S, Q)
  int64_t solves = 0;
};

// The limit may be kForbidden: none. Any number of rounds gives a valid bound; a round is one dual.
QueueBounds QueueBound(const Problem& problem, double limit, int max_rounds = 12);

}  // namespace heddle
