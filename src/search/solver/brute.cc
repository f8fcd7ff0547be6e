#include "search/solver/brute.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

// `measure`: the function of a Cost that is minimised. It must not decrease when a cost is added.
template <class Measure>
class ChoiceEnumerator {
 public:
  ChoiceEnumerator(const Problem& problem, double limit, Measure measure)
      : problem_(problem), limit_(limit), measure_(std::move(measure)) {
    ending_.resize(problem.unary.size());
    for (const PairCost& pair : problem.pairs) {
      ending_[static_cast<size_t>(std::max(pair.a, pair.b))].push_back(&pair);
    }
    choice_.resize(problem.unary.size(), 0);
    best_.objective = kForbidden;
    best_.choice = choice_;
  }

  Solution Run() {
    Visit(0, {});
    return std::move(best_);
  }

 private:
  void Visit(size_t v, const Cost& so_far) {
    double objective = measure_(so_far);
    if (objective >= best_.objective || so_far.bytes > limit_ * (1 + 1e-9)) return;
    if (v == choice_.size()) {
      Cost cost = Evaluate(problem_, choice_);
      if (limit_ < kForbidden && cost.bytes > limit_) return;
      best_.objective = objective;
      best_.cost = cost;
      best_.choice = choice_;
      return;
    }
    const Unary& unary = *problem_.unary[v];
    for (size_t x = 0; x < unary.size(); ++x) {
      choice_[v] = static_cast<int>(x);
      Cost cost = so_far;
      cost += unary.At(x);
      for (const PairCost* pair : ending_[v]) {
        size_t row = static_cast<size_t>(choice_[static_cast<size_t>(pair->a)]);
        size_t column = static_cast<size_t>(choice_[static_cast<size_t>(pair->b)]);
        size_t entry = row * problem_.domain(pair->b) + column;
        cost.seconds += (*pair->seconds)[entry];
        if (pair->queued) cost.queued += (*pair->queued)[entry];
      }
      Visit(v + 1, cost);
    }
  }

  const Problem& problem_;
  double limit_;
  Measure measure_;
  std::vector<std::vector<const PairCost*>> ending_;  // by the later of their two variables
  std::vector<int> choice_;
  Solution best_;
};

template <class Measure>
Solution LeastOf(const Problem& problem, double limit, Measure measure) {
  HEDDLE_CHECK(Assignments(problem) <= kMaxBruteAssignments, "too many to try");
  return ChoiceEnumerator<Measure>(problem, limit, std::move(measure)).Run();
}

std::optional<Solution> IfAny(Solution best) {
  if (best.objective == kForbidden) return std::nullopt;
  return best;
}

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
  return LeastOf(problem, kForbidden, [&](const Cost& cost) { return cost.Weighted(weights); });
}

std::optional<Solution> BruteLimited(const Problem& problem, const Weights& weights, double limit) {
  return IfAny(LeastOf(problem, limit, [&](const Cost& cost) { return cost.Weighted(weights); }));
}

}  // namespace heddle
