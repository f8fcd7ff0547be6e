#include "search/judge/short_step.h"

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cluster/load.h"
#include "plan/expert.h"
#include "program/testing.h"
#include "schedule/schedule.h"

namespace heddle {
namespace {

// A plan with only what HoldsAsMany reads.
Plan PlanOfStages(const std::string& schedule, int64_t microbatches,
                  const std::vector<HalfTimes>& times) {
  Plan plan;
  plan.schedule = schedule;
  plan.microbatches = microbatches;
  for (const HalfTimes& at : times) {
    plan.stages.emplace_back().times = {at.forward, at.backward, at.weight};
  }
  return plan;
}

// With unequal stages, zb's timetable for 48 micro-batches differs from that for 24.
TEST(HoldsAsMany, TimetablesOfSplitBackwardDependOnTheirNumber) {
  std::vector<HalfTimes> even(8, {1, 1.2, 0.8}), uneven = even;
  uneven[3] = {1.5, 1.8, 1.2};
  uneven[7] = {1.3, 1.56, 1.04};
  EXPECT_TRUE(HoldsAsMany(PlanOfStages("zb", 48, even), 24));
  EXPECT_FALSE(HoldsAsMany(PlanOfStages("zb", 48, uneven), 24));
  EXPECT_TRUE(HoldsAsMany(PlanOfStages("zb", 48, uneven), 48));
  EXPECT_TRUE(HoldsAsMany(PlanOfStages("1f1b", 48, uneven), 24));
  EXPECT_TRUE(HoldsAsMany(PlanOfStages("zb", 4096, uneven), 24));  // not compared
}

TEST(RebatchedModels, EachIsMadeOnce) {
  Model model = SmallModel();
  RebatchedModels models(model);
  std::vector<std::shared_ptr<const Model>> made(8);
  InParallel(made.size(), [&](size_t i) { made[i] = models.Of(i % 2 == 0 ? 4 : 8, DType::kBF16); });
  for (size_t i = 2; i < made.size(); ++i) EXPECT_EQ(made[i], made[i % 2]);
  EXPECT_EQ(BatchSize(*made[0]), 4);
  EXPECT_EQ(BatchSize(*made[1]), 8);
  EXPECT_NE(models.Of(4, DType::kF32), made[0]);
}

TEST(RebatchedModels, APlanIsLoweredAsItsModelWouldBe) {
  Model model = SmallModel();
  Plan plan = ExpertPlan(model, LoadCluster("dgx-a100:1"),
                         {.dp = 2, .pp = 2, .microbatches = 4, .precision = DType::kBF16});
  RebatchedModels models(model);
  Program one = LowerConverted(*models.Of(8, DType::kBF16), plan), other = Lower(model, plan);
  ASSERT_EQ(one.runs.size(), other.runs.size());
  for (size_t r = 0; r < one.runs.size(); ++r) {
    EXPECT_EQ(one.runs[r].instructions, other.runs[r].instructions);
    EXPECT_EQ(one.runs[r].buffers, other.runs[r].buffers);
  }
  EXPECT_EQ(one.stages, other.stages);
}

TEST(RebatchedModels, NullWhereTheBatchCannotChange) {
  Model model = SmallModel();
  for (Value& value : model.graph.values) {
    if (value.name == "labels") value.type.shape[0] = 5;  // whereas the other input has 8
  }
  RebatchedModels models(model);
  EXPECT_EQ(models.Of(4, DType::kF32), nullptr);
}

}  // namespace
}  // namespace heddle
