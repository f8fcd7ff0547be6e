// A plan's step in the simulator, and whether it fits.
#pragma once

#include "search/searcher.h"

namespace heddle {

// Throws SimulationStopped where the problem has been over for half a second: a plan that is simulated fast is judged
// all the same, so that a search that ends at once has one.
JudgedPlan Judge(const SearchProblem& problem, Proposal proposal);

// What ends a simulation of the problem's plans; it must not outlive the problem.
std::function<bool()> Impatience(const SearchProblem& problem);

}  // namespace heddle
