// Good choices under a limit on bytes, made from the results of the dual (dual.h). Given a choice
// that fits and a cheaper one that does not, the copies of a chain up to some copy are taken from
// one and the rest from the other. Equal copies cost the same, so this comes within about one copy
// of the limit. Remaining bytes are used, or missing bytes are saved, within single copies while
// everything else stays fixed.
#pragma once

#include <functional>
#include <vector>

#include "search/solver/dual.h"
#include "search/solver/problem.h"

namespace heddle {

// Calls `visit` with every mixture, within the limit or not. 4 evaluations per copy of a chain.
void MixChoices(const Problem& problem, const PricedChoice& one, const PricedChoice& other,
                const std::function<void(PricedChoice)>& visit);

// Improves single copies (and the variables outside chains) one after the other until nothing
// improves. `start` need not fit; the result fits or is `start`.
PricedChoice Polish(const Problem& problem, const Weights& weights, double limit,
                    PricedChoice start, const std::function<bool()>& stop);

}  // namespace heddle
