#include "search/brute.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

class Enumerator {
 public:
  Enumerator(const Problem& problem, const Weights& weights)
      : problem_(problem), weights_(weights) {
    ending_.resize(problem.unary.size());
    for (const PairCost& pair : problem.pairs) {
      ending_[static_cast<size_t>(std::max(pair.a, pair.b))].push_back(&pair);
    }
    choice_.resize(problem.unary.size(), 0);
    best_.objective = kForbidden;
    best_.choice = choice_;
  }

  Solution Run() {
    Visit(0, 0);
    return std::move(best_);
  }

 private:
  void Visit(size_t v, double so_far) {
    if (so_far >= best_.objective) return;
    if (v == choice_.size()) {
      best_.objective = so_far;
      best_.cost = Evaluate(problem_, choice_);
      best_.choice = choice_;
      return;
    }
    const Unary& unary = *problem_.unary[v];
    for (size_t x = 0; x < unary.size(); ++x) {
      choice_[v] = static_cast<int>(x);
      Cost cost = unary.At(x);
      for (const PairCost* pair : ending_[v]) {
        size_t row = static_cast<size_t>(choice_[static_cast<size_t>(pair->a)]);
        size_t column = static_cast<size_t>(choice_[static_cast<size_t>(pair->b)]);
        size_t entry = row * problem_.domain(pair->b) + column;
        cost.seconds += (*pair->seconds)[entry];
        if (pair->queued) cost.queued += (*pair->queued)[entry];
      }
      Visit(v + 1, so_far + cost.Weighted(weights_));
    }
  }

  const Problem& problem_;
  Weights weights_;
  std::vector<std::vector<const PairCost*>> ending_;  // by the later of their variables
  std::vector<int> choice_;
  Solution best_;
};

}  // namespace

int64_t Assignments(const Problem& problem) {
  int64_t count = 1;
  for (const UnaryRef& unary : problem.unary) {
    count *= static_cast<int64_t>(unary->size());
    if (count > kMaxBruteAssignments) return kMaxBruteAssignments + 1;
  }
  return count;
}

Solution Brute(const Problem& problem, const Weights& weights) {
  HEDDLE_CHECK(Assignments(problem) <= kMaxBruteAssignments, "too many to try");
  return Enumerator(problem, weights).Run();
}

}  // namespace heddle
