#include "search/short_step.h"

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cluster/load.h"
#include "plan/expert.h"
#include "program/testing.h"

namespace heddle {
namespace {

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
    if (value.name == "labels") value.type.shape[0] = 5;  // and the other input 8
  }
  RebatchedModels models(model);
  EXPECT_EQ(models.Of(4, DType::kF32), nullptr);
}

}  // namespace
}  // namespace heddle
