#include "search/expert/expert_grid.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "ops/rebatch.h"
#include "program/testing.h"
#include "search/expert/expert_estimate.h"

namespace heddle {
namespace {

// Stages of equal work need unequal memory: the first one has two micro-batches in flight. Recomputation would save nothing.
TEST(ExpertGridCut, LayersMoveToStagesWithRoom) {
  Model model = Analyse(Rebatch(SmallModel(16, false, 64).graph, 1 << 16));
  Cluster cluster = LoadCluster("dgx-a100:1");
  SearchProblem problem{.model = model, .cluster = cluster, .reserve = 0};
  Degrees d{.dp = 4, .pp = 2, .microbatches = 8, .precision = DType::kBF16};
  ExpertEstimator roomy(problem);
  std::vector<double> bytes = roomy.Of(d, roomy.EndsOf(d)).by_device;
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

}  // namespace
}  // namespace heddle
