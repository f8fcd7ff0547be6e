// A plan's step in the simulator, and whether it fits.
#pragma once

#include "search/searcher.h"

namespace heddle {

JudgedPlan Judge(const SearchProblem& problem, Proposal proposal);

}  // namespace heddle
