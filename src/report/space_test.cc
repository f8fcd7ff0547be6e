#include "report/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/load.h"
#include "sim/sim_test_models.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(Space, SpearmanComparesRanks) {
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3, 4}, {10, 20, 30, 1000}), 1);
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3}, {1, 3, 2}), 0.5);
  EXPECT_DOUBLE_EQ(Spearman({1, 1, 2}, {1, 1, 5}), 1);
  EXPECT_DOUBLE_EQ(Spearman({1, 1, 1}, {1, 2, 3}), 0);
}

TEST(Space, EveryConfigurationIsThereOnceInOrder) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  Model model = Analyse(Layers(8, 64, 256));
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed.pp = 2;
  Space space = EvaluateSpace(problem);
  ASSERT_EQ(space.rows.size(), SpaceOf(problem).size());
  EXPECT_EQ(space.rows.size(), 3 * 2 * Enumerate(problem, false).size());  // each with offload, too
  for (const auto& [configuration, recompute] : SpaceOf(problem)) {
    EXPECT_EQ(std::count_if(space.rows.begin(), space.rows.end(),
                            [&](const SpaceRow& row) {
                              return row.configuration == configuration &&
                                     row.recompute == recompute;
                            }),
              1);
  }
  for (size_t i = 1; i < space.rows.size(); ++i) {
    ASSERT_TRUE(space.rows[i].step_seconds);
    EXPECT_LE(*space.rows[i - 1].step_seconds, *space.rows[i].step_seconds);
  }
  ASSERT_TRUE(space.regret);
  EXPECT_GE(*space.regret, 0);
  EXPECT_GT(*space.spearman, 0);
  std::string csv = ToCsv(space);
  EXPECT_THAT(csv, testing::StartsWith("dp,tp,pp,microbatches,schedule,"));
  EXPECT_EQ(static_cast<size_t>(std::count(csv.begin(), csv.end(), '\n')), space.rows.size() + 1);
  EXPECT_THAT(SummaryLine(space), HasSubstr("rank correlation"));
}

TEST(Space, WhatDoesNotFitIsSimulatedAndComesLast) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  Model model = Analyse(Layers(8, 4096, 1024));
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed.pp = 1;
  problem.fixed.recompute = RecomputePolicy::kNone;
  Space unlimited = EvaluateSpace(problem);
  auto [least, most] = std::minmax_element(
      unlimited.rows.begin(), unlimited.rows.end(),
      [](const SpaceRow& a, const SpaceRow& b) { return a.reserved_bytes < b.reserved_bytes; });
  ASSERT_LT(least->reserved_bytes, most->reserved_bytes);
  problem.memory_limit = (least->reserved_bytes + most->reserved_bytes) / 2;
  problem.reserve = 0;
  Space tight = EvaluateSpace(problem);
  EXPECT_TRUE(tight.rows.front().fits);
  EXPECT_FALSE(tight.rows.back().fits);
  EXPECT_TRUE(tight.rows.back().step_seconds);
  EXPECT_TRUE(std::is_sorted(tight.rows.begin(), tight.rows.end(),
                             [](const SpaceRow& a, const SpaceRow& b) { return a.fits > b.fits; }));
}

}  // namespace
}  // namespace heddle
