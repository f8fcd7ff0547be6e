// Plans in the simulator: how long a step takes, and whether it fits.
#pragma once

#include "search/searcher.h"

namespace heddle {

// Throws SimulationStopped where the problem has been over for half a second: a plan that is simulated fast is judged
// all the same, so that a search that ends at once has one.
JudgedPlan Judge(const SearchProblem& problem, Proposal proposal);

// What ends a simulation of the problem's plans; it must not outlive the problem.
std::function<bool()> Impatience(const SearchProblem& problem);

// How much a simulation has to go through: nodes of all micro-batches that are simulated, on one device of each stage.
double SimulationSize(const SearchProblem& problem, const Plan& plan);
constexpr double kQuickWork = 150'000;  // some tenths of a second

struct JudgingEffort {
  size_t most = 0;  // plans that fit
  double work = 0;  // of simulation, once one fits
};

// All of them, in order, added to what is judged; until the deadline.
void JudgeAll(const SearchProblem& problem, std::vector<Proposal> plans, SearchResult& out);

// Plans with estimates, those first of which most is expected, until none of the rest can win or the effort is spent. What
// is expected learns from the errors of the estimates of plans judged before, most from those of the same kind.
void JudgeBest(const SearchProblem& problem, std::vector<Proposal> plans,
               const JudgingEffort& effort, SearchResult& out);

}  // namespace heddle
