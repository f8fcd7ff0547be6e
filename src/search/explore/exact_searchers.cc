// The exact search with other solvers: an integer program, and brute force. They weigh the same
// configurations as `auto` and must find the same minimum; they exist to check it and are slow.
//
// Both solve every stage problem without folding. After the deadline nothing more is solved, and no
// bound is claimed because configurations were left out.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/error.h"
#include "search/explore/exact_search.h"
#include "search/solver/brute.h"
#include "search/solver/ilp.h"

namespace heddle {
namespace {

double SecondsLeft(const SearchTask& task) {
  auto left = task.effort.deadline - std::chrono::steady_clock::now();
  return std::chrono::duration<double>(left).count();
}

// `solve` returns nothing if it did not finish.
Proposals ProposeBy(const SearchTask& task, const ProblemSolver& solve) {
  std::atomic<bool> left_out = false;
  Proposals out = ProposeExact(task, [&](const Problem& stage, const Weights& weights) {
    std::optional<Solution> solution;
    if (!task.effort.Over()) solution = solve(stage, weights);
    if (!solution) left_out = true;
    return solution;
  });
  if (left_out || task.effort.Over()) out.lower_bound = out.additive_bound = 0;
  return out;
}

Proposals ProposeIlp(const SearchTask& task) {
  if (!HasIlp()) SolveIlp({});  // its error says what to install
  std::mutex mutex;             // CBC is not known to be thread-safe
  return ProposeBy(task, [&](const Problem& stage, const Weights& weights) {
    std::lock_guard lock(mutex);
    IlpOptions options;
    options.weights = weights;
    options.seconds = std::min(options.seconds, SecondsLeft(task));
    if (options.seconds <= 0) return std::optional<Solution>();
    IlpResult result = SolveIlp(stage, options);
    if (result.proven && !result.solution) result.solution = Solution{kForbidden, {}, {}};
    return result.proven ? std::move(result.solution) : std::nullopt;
  });
}

Proposals ProposeBrute(const SearchTask& task) {
  return ProposeBy(task, [&](const Problem& stage, const Weights& weights) {
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
