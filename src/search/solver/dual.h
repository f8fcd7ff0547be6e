// The Lagrangian dual of minimising an additive problem under a limit on bytes.
//
//   g(m) = min over x of  w(x) + m (bytes(x) - limit),   m >= 0
//
// Every g(m) is a lower bound of the minimum under the limit. Every choice x is a line in m, and g, their lower
// envelope, is concave with finitely many corners. The largest g lies where a line that falls (x fits) and one that
// rises (x does not) cross on the envelope; until they do, solving where they cross gives a lower line:
//
//        \  over /          g at the crossing is either on both lines, the maximum,
//   under \     /           or on a third line that replaces one of them.
//          \ . /
//           /\x             The end is exact, after finitely many solves:
//          /  \             five to ten in practice.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "search/solver/problem.h"

namespace heddle {

struct PricedChoice {
  std::vector<int> choice;
  Cost cost;
};

struct DualOptions {
  Weights weights = {};                            // bytes is not looked at
  double limit = kForbidden;                       // finite
  double enough = kForbidden;                      // a bound to stop at
  double multiplier = -1;                          // where to look first; -1: nowhere special
  std::function<void(const PricedChoice&)> visit;  // called with every minimiser
  std::function<bool()> stop;
};

struct DualResult {
  double bound = -kForbidden;  // kForbidden where nothing fits; valid also when stopped
  double multiplier = 0;       // where the bound was found
  bool finished = false;       // not stopped, and no table too large: the bound is the largest
  // Best lines on both sides. Without `over` a finished bound is what `under` costs.
  std::optional<PricedChoice> over, under;
};

// `over` and `under`: choices of this problem on either side of the limit, where known.
DualResult MaximiseDual(const Problem& problem, const DualOptions& options,
                        std::optional<PricedChoice> over = {},
                        std::optional<PricedChoice> under = {});

}  // namespace heddle
