#include "search/expert/expert_grid.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "ops/rebatch.h"
#include "plan/expert.h"
#include "program/testing.h"
#include "search/expert/expert_estimate.h"

namespace heddle {
namespace {

// Stages of equal work need unequal memory, because the first one has two micro-batches in flight.
// Recomputation would save nothing.
TEST(ExpertGridCut, LayersMoveToStagesWithRoom) {
  Model model = Analyse(Rebatch(SmallModel(16, false, 64).graph, 1 << 16));
  Cluster cluster = LoadCluster("dgx-a100:1");
  SearchProblem problem{.model = model, .cluster = cluster, .reserve = 0};
  Degrees d{.dp = 4, .pp = 2, .microbatches = 8, .precision = DType::kBF16};
  ExpertEstimator unlimited(problem);
  std::vector<double> bytes = unlimited.Of(d, unlimited.EndsOf(d)).by_device;
  double transient = 0.02 * static_cast<double>(MemoryLimit(problem));
  ASSERT_GT(bytes[0], bytes[1]);
  problem.memory_limit = static_cast<int64_t>(0.95 * (bytes[0] - transient));
  auto estimator = std::make_shared<ExpertEstimator>(problem);
  EXPECT_FALSE(estimator->Of(d, estimator->EndsOf(d)).fits);
  std::vector<Proposal> plans = BestExperts(problem, {d}, "", nullptr, 1);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_LE(plans[0].bytes, static_cast<double>(MemoryLimit(problem)));
  EXPECT_LT(plans[0].plan.stages[0].last_block, estimator->EndsOf(d)[0]);
}

// Optimizer offload is weighed wherever a point has to recompute or does not fit, whatever the best
// plan does.
TEST(ExpertGridOffload, IsWeighedWhereMemoryIsShort) {
  Model model = SmallModel(16, false, 64);
  Cluster cluster = LoadCluster("dgx-a100:1");
  SearchProblem problem{.model = model, .cluster = cluster, .reserve = 0};
  problem.fixed.recompute = RecomputePolicy::kNone;
  Degrees d{.dp = 8, .precision = DType::kBF16};
  ExpertEstimator unlimited(problem);
  double transient = 0.02 * static_cast<double>(MemoryLimit(problem));
  double needed = unlimited.Of(d, unlimited.EndsOf(d)).bytes - transient;
  auto offloaded = [&](double share) {
    problem.memory_limit = static_cast<int64_t>(share * needed);
    JudgedPlan best;
    best.fits = true;
    best.plan = ExpertPlan(model, cluster, d);
    best.result.step_seconds = 1e9;
    std::vector<Proposal> plans = BestExperts(problem, {d}, "", &best, 4);
    return std::any_of(plans.begin(), plans.end(), [](const Proposal& plan) {
      return plan.plan.offload == Offload::kOptimizer;
    });
  };
  EXPECT_TRUE(offloaded(0.6));
  EXPECT_FALSE(offloaded(2));
}

}  // namespace
}  // namespace heddle
