#include "search/solver/dual.h"

#include <algorithm>
#include <cmath>

#include "search/solver/eliminate.h"

namespace heddle {
namespace {

// Relative to the size of the terms: values closer than this are equal.
constexpr double kRounding = 1e-13;

class Maximiser {
 public:
  Maximiser(const Problem& problem, const DualOptions& options) : problem_(problem), o_(options) {}

  DualResult Run(std::optional<PricedChoice> over, std::optional<PricedChoice> under) {
    r_.over = std::move(over);
    r_.under = std::move(under);
    Climb();
    return std::move(r_);
  }

 private:
  double Objective(const PricedChoice& x) const {
    Weights weights = o_.weights;
    weights.bytes = 0;
    return x.cost.Weighted(weights);
  }
  double Line(const PricedChoice& x, double multiplier) const {
    return Objective(x) + multiplier * (x.cost.bytes - o_.limit);
  }
  bool Fits(const PricedChoice& x) const { return x.cost.bytes <= o_.limit; }

  std::optional<PricedChoice> Minimise(const Weights& weights) {
    if (o_.stop && o_.stop()) return std::nullopt;
    std::optional<Solution> solution = SolveFolded(problem_, weights);
    if (!solution) return std::nullopt;
    PricedChoice x;
    x.cost = Evaluate(problem_, solution->choice);
    x.choice = std::move(solution->choice);
    if (x.cost.seconds == kForbidden) {
      r_.bound = kForbidden;
      r_.finished = true;
      return std::nullopt;
    }
    if (o_.visit) o_.visit(x);
    return x;
  }

  // Solves at a multiplier and keeps the line. False: finished.
  bool Solve(double multiplier) {
    Weights weights = o_.weights;
    weights.bytes = multiplier;
    std::optional<PricedChoice> x = Minimise(weights);
    if (!x) return false;
    double value = Line(*x, multiplier);
    if (value > r_.bound) {
      r_.bound = value;
      r_.multiplier = multiplier;
    }
    (Fits(*x) ? r_.under : r_.over) = std::move(x);
    return r_.bound < o_.enough;
  }

  bool FindUnder() {
    std::optional<PricedChoice> x = Minimise({0, 0, 1});
    if (!x) return false;
    if (Fits(*x)) {
      r_.under = std::move(x);
      return true;
    }
    r_.bound = kForbidden;
    r_.finished = true;
    return false;
  }

  bool FindOver() {
    if (!Solve(0)) return false;
    if (r_.over) return true;
    r_.finished = true;  // the choice fits: its cost is the bound
    return false;
  }

  void Climb() {
    if (o_.multiplier > 0 && !(r_.over && r_.under) && !Solve(o_.multiplier)) return;
    if (!r_.over && !FindOver()) return;
    if (!r_.under && !FindUnder()) return;
    while (true) {
      double multiplier = (Objective(*r_.under) - Objective(*r_.over)) /
                          (r_.over->cost.bytes - r_.under->cost.bytes);
      multiplier = std::max(multiplier, 0.0);
      double crossing = Line(*r_.over, multiplier);
      double size = std::abs(Objective(*r_.over)) + multiplier * std::abs(o_.limit);
      PricedChoice over = *r_.over, under = *r_.under;
      if (!Solve(multiplier)) return;
      if (r_.bound >= crossing - kRounding * size) {
        // Both crossing lines are minimisers, so the choice found may be either or between them.
        r_.multiplier = multiplier;
        r_.over = std::move(over);
        r_.under = std::move(under);
        r_.finished = true;
        return;
      }
    }
  }

  const Problem& problem_;
  const DualOptions& o_;
  DualResult r_;
};

}  // namespace

DualResult MaximiseDual(const Problem& problem, const DualOptions& options,
                        std::optional<PricedChoice> over, std::optional<PricedChoice> under) {
  return Maximiser(problem, options).Run(std::move(over), std::move(under));
}

}  // namespace heddle
