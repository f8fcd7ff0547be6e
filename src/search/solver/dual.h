// The Lagrangian dual of minimising an additive problem under a limit on bytes.
//
//   g(m) = min over x of  w(x) + m (bytes(x) - limit),   m >= 0
//
// Every g(m) is a lower bound on the minimum under the limit. Every choice x is a line in m, and g,
// the lower envelope of these lines, is concave with finitely many corners. The largest g is where
// a falling line (x fits) and a rising one (x does not fit) cross on the envelope. Solving the
// problem at the crossing of the two best lines gives a lower line until they are on the envelope:
//
//         \  over /          g at the crossing is either on both lines, which is the maximum,
//    under \     /           or on a third line that replaces one of them.
//           \ . /
//            /\x             The result is exact after finitely many solves,
//           /  \             five to ten in practice.
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
  Weights weights = {};                            // the weight of bytes is ignored
  double limit = kForbidden;                       // finite
  double enough = kForbidden;                      // stop when the bound reaches this
  double multiplier = -1;                          // the multiplier to start with; -1: none
  std::function<void(const PricedChoice&)> visit;  // called with every minimiser
  std::function<bool()> stop;
};

struct DualResult {
  double bound = -kForbidden;  // kForbidden where nothing fits; valid also when stopped
  double multiplier = 0;       // where the bound was found
  bool finished = false;       // neither stopped nor a table too large: the bound is the maximum
  // The best lines on both sides. Without `over` a finished bound is the cost of `under`.
  std::optional<PricedChoice> over, under;
};

// `over` and `under`: known choices on either side of the limit.
DualResult MaximiseDual(const Problem& problem, const DualOptions& options,
                        std::optional<PricedChoice> over = {},
                        std::optional<PricedChoice> under = {});

}  // namespace heddle
