// Explains why the search without constraints missed a plan that another search found.
//
//   Diagnosis diagnosis(problem);
//   diagnosis.Why(auto_result, better_plan)
//     == "why [estimate far above the best estimate]: estimated 0.21 s, +14.2 % of the best estimate, ..."
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "configuration_of.h"
#include "plan/precision.h"
#include "search/explore/estimate.h"
#include "search/searcher.h"

namespace heddle {

class Diagnosis {
 public:
  // The problem has no constraints and must outlive the diagnosis.
  explicit Diagnosis(const SearchProblem& problem)
      : problem_(problem),
        compute_model_(WithComputeType(problem.model, problem.precision)),
        prices_(compute_model_, problem.cluster, PriceOptionsOf(problem)),
        estimator_(problem, prices_),
        enumerated_(Enumerate(problem, false)) {}

  std::string Why(const SearchResult& found, const JudgedPlan& better) {
    std::optional<Configuration> c = ConfigurationOf(better.plan);
    if (!c) return "why [axis]: it has an axis that is not searched";
    if (c->offload == Offload::kAll) return "why [spilled]: weights on the host are tried last";
    Configuration on_device = *c;
    on_device.offload = Offload::kNone;
    bool listed = std::find(enumerated_.begin(), enumerated_.end(), on_device) != enumerated_.end();
    const JudgedPlan* like = JudgedLike(found, *c);
    std::string judged = "no plan of its configuration was judged";
    if (like != nullptr) {
      judged = fmt::format("judged of its configuration: '{}' {:.6g} s, {}", like->from,
                           like->result.step_seconds, like->fits ? "fits" : "does not fit");
    }
    if (!listed) return "why [not enumerated]: " + judged;
    Estimate estimate = estimator_.Of(*c);
    Estimator::Floors floors = estimator_.Floor(*c);
    double best = found.proposals.additive;
    std::string text = fmt::format("{}; floor {:.6g} s ({:.6g} s without memory)", judged,
                                   floors.floor, floors.without_memory);
    if (!estimate.fits) return "why [estimated not to fit]: " + text;
    text += fmt::format(", estimated {:.6g} s, {:+.1f} % of the best estimate, simulated {:+.1f} %",
                        estimate.seconds, 100 * (estimate.seconds / best - 1),
                        100 * (better.result.step_seconds / estimate.seconds - 1));
    constexpr double kNear = 1.12;  // estimates farther from the best one are called far
    std::string_view kind = "near, not judged";
    if (like != nullptr && better.factors && !like->factors) {
      kind = "judged without factors";
    } else if (like != nullptr && like->estimate > 0) {
      kind = "another plan of its configuration was judged";
    } else if (floors.floor > kNear * best) {
      kind = "floor far above the best estimate";
    } else if (estimate.seconds > kNear * best) {
      kind = "estimate far above the best estimate";
    } else if (like != nullptr) {
      kind = "only a baseline of its configuration was judged";
    }
    return fmt::format("why [{}]: {}", kind, text);
  }

 private:
  // The best plan of the same configuration that the search simulated, preferably one with an
  // estimate.
  static const JudgedPlan* JudgedLike(const SearchResult& found, const Configuration& c) {
    const JudgedPlan* like = nullptr;
    for (const JudgedPlan& judged : found.judged) {
      if (!judged.simulated || ConfigurationOf(judged.plan) != c) continue;
      if (like == nullptr || (like->estimate <= 0 && judged.estimate > 0)) like = &judged;
    }
    return like;
  }

  const SearchProblem& problem_;
  Model compute_model_;
  Prices prices_;
  Estimator estimator_;
  std::vector<Configuration> enumerated_;
};

}  // namespace heddle
