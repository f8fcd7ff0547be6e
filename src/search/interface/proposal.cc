#include "search/interface/proposal.h"

#include <algorithm>

namespace heddle {

bool Better(const JudgedPlan& a, const JudgedPlan& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? a.result.step_seconds < b.result.step_seconds : a.reserved() < b.reserved();
}

double SearchResult::gap() const {
  if (proposals.additive <= 0) return 0;
  return (proposals.additive - proposals.additive_bound) / proposals.additive;
}

double SearchResult::step_gap() const {
  if (!feasible() || proposals.lower_bound <= 0) return 1;
  // A plan with gradient factors may be best; the plan it was made from follows and belongs to the
  // space.
  auto best = std::find_if(judged.begin(), judged.end(),
                           [](const JudgedPlan& plan) { return plan.fits && plan.in_space; });
  if (best == judged.end()) return 1;
  double step = best->result.step_seconds;
  return (step - proposals.lower_bound) / step;
}

}  // namespace heddle
