// The exact search with other solvers inside: an integer program, and trying everything. They weigh what `auto` weighs
// and must come to the same minimum; they are there to check it, and take long.
//
// Both solve every stage problem as it is, however many blocks are alike. Once the deadline has passed nothing more is
// solved, and no bound is claimed: configurations were left out.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/error.h"
#include "search/solver/brute.h"
#include "search/solver/ilp.h"
#include "search/searchers.h"

namespace heddle {
namespace {

double SecondsLeft(const SearchProblem& problem) {
  auto left = problem.deadline - std::chrono::steady_clock::now();
  return std::chrono::duration<double>(left).count();
}

// `solve` returns nothing where it did not come to an end.
Proposals ProposeBy(const SearchProblem& problem, const ProblemSolver& solve) {
  std::atomic<bool> left_out = false;
  Proposals out = ProposeExact(problem, [&](const Problem& stage, const Weights& weights) {
    std::optional<Solution> solution;
    if (!problem.Over()) solution = solve(stage, weights);
    if (!solution) left_out = true;
    return solution;
  });
  if (left_out || problem.Over()) out.lower_bound = out.additive_bound = 0;
  return out;
}

Proposals ProposeIlp(const SearchProblem& problem) {
  if (!HasIlp()) SolveIlp({});  // says what to install
  std::mutex mutex;             // CBC is not known to be fit for several threads
  return ProposeBy(problem, [&](const Problem& stage, const Weights& weights) {
    std::lock_guard lock(mutex);
    IlpOptions options;
    options.weights = weights;
    options.seconds = std::min(options.seconds, SecondsLeft(problem));
    if (options.seconds <= 0) return std::optional<Solution>();
    IlpResult result = SolveIlp(stage, options);
    if (result.proven && !result.solution) result.solution = Solution{kForbidden, {}, {}};
    return result.proven ? std::move(result.solution) : std::nullopt;
  });
}

Proposals ProposeBrute(const SearchProblem& problem) {
  return ProposeBy(problem, [&](const Problem& stage, const Weights& weights) {
    if (Assignments(stage) > kMaxBruteAssignments) {
      ThrowInput(
          "a stage of {} variables has more than {} choices: too many to try; brute is for tiny "
          "problems, use auto or ilp",
          stage.unary.size(), kMaxBruteAssignments);
    }
    return std::optional(Brute(stage, weights));
  });
}

}  // namespace

SearcherDef IlpSearcher() {
  return {"ilp", "as auto, every stage an integer program that CBC solves; slow", ProposeIlp};
}
SearcherDef BruteSearcher() {
  return {"brute", "as auto, trying everything; for tiny models", ProposeBrute};
}

}  // namespace heddle
