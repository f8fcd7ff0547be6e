#include "search/judge/batch_statistics.h"

#include <algorithm>

#include "search/judge/judge.h"

namespace heddle {
namespace {

constexpr double kConsiderableShare = 0.05;  // share of the step

bool SplitsStatistics(const Model& model, const Stage& stage, size_t n) {
  const Strategy& strategy = stage.strategies[n];
  return std::any_of(strategy.begin(), strategy.end(), [&](AxisChoice choice) {
    if (!choice.is_split()) return false;
    size_t f = choice.factor_index();
    if (model.rules[n].factors[f].kind != FactorKind::kExpanded) return false;
    return model.batch && model.batch->factors[n].size() > f && model.batch->factors[n][f];
  });
}

bool ExchangesStatistics(const Model& model, const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      if (SplitsStatistics(model, stage, n)) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<LocalStatistics> WithLocalStatistics(const SearchTask& task,
                                                   const JudgedPlan& judged) {
  bool global = judged.simulated && !judged.plan.local_batch_statistics;
  if (!global || !ExchangesStatistics(task.model, judged.plan)) return std::nullopt;
  Proposal local{judged.plan, judged.from};
  local.plan.local_batch_statistics = true;
  JudgedPlan without = Judge(task, std::move(local));
  double share = 1 - without.result.step_seconds / judged.result.step_seconds;
  if (!without.simulated || share <= kConsiderableShare) return std::nullopt;
  return LocalStatistics{without.result.step_seconds, share};
}

}  // namespace heddle
