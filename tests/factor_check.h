// Compares the minimum cut for plans of search/replicas/factor_cases.h with CBC.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/load.h"
#include "frontend/load.h"
#include "ops/rebatch.h"
#include "plan/expert.h"
#include "search/replicas/factor_cases.h"
#include "search/replicas/stage_cut.h"

namespace heddle {

struct FactorPlan {
  Model model;
  Plan plan;
};

inline FactorPlan PlanOf(const FactorCase& at) {
  std::string source = at.model;
  if (source.ends_with(".onnx.gz")) source = HEDDLE_TEST_DATA "/" + source;
  Degrees degrees;
  degrees.dp = at.dp;
  degrees.microbatches = at.microbatches;
  degrees.zero = at.zero;
  Model model = Analyse(Rebatch(LoadModel(source), at.batch));
  Plan plan = ExpertPlan(model, LoadCluster(at.cluster), degrees);
  return {std::move(model), std::move(plan)};
}

inline std::vector<StageCut> CutsOf(const FactorPlan& at, Whole what) {
  CostOptions options;
  options.parts = at.plan.microbatches;
  options.microbatches = static_cast<double>(at.plan.microbatches);
  StageCosts costs(at.model, at.plan.cluster, at.plan.stages[0].mesh, options);
  return StageCuts(costs, at.plan, 0, what);
}

// Both cost models must give CBC's optimum, and paying once is never worse. Returns the number of problems with a gain.
inline int CheckCuts(const FactorPlan& at, Whole what) {
  int gaining = 0;
  for (const StageCut& cut : CutsOf(at, what)) {
    Cut per_reader = SolveByCut(cut.problem, Payment::kPerReader);
    Cut once = SolveByCut(cut.problem, Payment::kOnce);
    for (const auto& [payment, ours] :
         {std::pair(Payment::kPerReader, per_reader), {Payment::kOnce, once}}) {
      double want = SolveByCbc(cut.problem, payment).objective;
      EXPECT_NEAR(ours.objective, want, 1e-9 * -want);
    }
    double paid_once = Evaluate(cut.problem, per_reader.whole, Payment::kOnce);
    EXPECT_LE(once.objective, paid_once + 1e-12 * -paid_once);
    gaining += once.objective < 0 ? 1 : 0;
  }
  return gaining;
}

}  // namespace heddle
