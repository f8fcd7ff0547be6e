// Good choices under a limit on bytes, made of what the dual found (dual.h).
//
// Between a choice that fits and a cheaper one that does not, copies of a chain are taken from one up to some copy and
// from the other after it: equal copies cost alike, so this comes within about one copy of the limit. What room is
// left is used, or what is missing found, inside single copies, with all else as it is.
#pragma once

#include <functional>
#include <vector>

#include "search/solver/dual.h"
#include "search/solver/problem.h"

namespace heddle {

// Calls `visit` with every mixture, over the limit or not. 4 evaluations for every copy of a chain.
void MixChoices(const Problem& problem, const PricedChoice& one, const PricedChoice& other,
                const std::function<void(PricedChoice)>& visit);

// Improves single copies (and what is in no chain), one after the other, until none is. `start` need not fit; what is
// returned does, or is `start`.
PricedChoice Polish(const Problem& problem, const Weights& weights, double limit,
                    PricedChoice start, const std::function<bool()>& stop);

}  // namespace heddle
