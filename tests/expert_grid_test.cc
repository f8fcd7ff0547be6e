#include "search/expert/expert_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "plan/plan_file.h"
#include "plan/verify.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

const Model& Llama() {
  static const Model model = Analyse(
      BuildModel("llama:layers=8,hidden=1024,heads=8,ffn=4096,vocab=2048,seq=2048,batch=16"));
  return model;
}
const Model& Moe() {
  static const Model model = Analyse(BuildModel(
      "moe:layers=4,hidden=1024,heads=8,ffn=2048,vocab=2048,seq=1024,experts=8,top_k=2,batch=32"));
  return model;
}

TEST(ExpertGrid, KeepsToWhatIsFixed) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  SearchProblem problem{.model = Llama(), .cluster = cluster};
  problem.fixed = {.dp = 2, .tp = 2, .pp = 2, .microbatches = 4, .zero = 1};
  std::vector<Degrees> points = ExpertDegrees(problem, {});
  ASSERT_FALSE(points.empty());
  for (const Degrees& d : points) {
    EXPECT_EQ(d.dp, 2);
    EXPECT_EQ(d.tp, 2);
    EXPECT_EQ(d.pp, 2);
    EXPECT_EQ(d.microbatches, 4);
    EXPECT_EQ(d.zero, 1);
    EXPECT_EQ(DevicesOf(d), 8);  // dp, tp and pp are all given
  }
  std::vector<Proposal> plans = ExpertGrid(problem, nullptr);
  ASSERT_FALSE(plans.empty());
  for (const Proposal& plan : plans) EXPECT_EQ(plan.plan.microbatches, 4);
}

TEST(ExpertGrid, OtherAxesAreChosenWhereOneOfTheThreeIsFree) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  SearchProblem problem{.model = Moe(), .cluster = cluster};
  auto has = [&](auto axis) {
    std::vector<Degrees> points = ExpertDegrees(problem, {});
    return std::any_of(points.begin(), points.end(), axis);
  };
  auto context = [](const Degrees& d) { return d.cp > 1; };
  auto experts = [](const Degrees& d) { return d.ep > 1; };
  problem.fixed = {.dp = 4, .pp = 1};
  EXPECT_TRUE(has(context));
  EXPECT_TRUE(has(experts));
  problem.fixed.tp = 1;
  EXPECT_FALSE(has(context));
  EXPECT_TRUE(has(experts));  // experts are distributed over the given data ranks
}

TEST(ExpertGrid, ChunksNeedAPipeline) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  SearchProblem problem{.model = Llama(), .cluster = cluster};
  problem.fixed.schedule = "interleaved";
  problem.fixed.chunks = 2;
  for (const Degrees& d : ExpertDegrees(problem, {})) EXPECT_GT(d.pp, 1);
}

// 21 layers in 24 stages: the other stages have the blocks before and after the layers.
TEST(ExpertGrid, ThereMayBeMoreStagesThanLayers) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  Model model =
      Analyse(BuildModel("llama:layers=21,hidden=128,heads=4,ffn=256,vocab=512,seq=128,batch=16"));
  SearchProblem problem{.model = model, .cluster = cluster};
  std::vector<Degrees> points = ExpertDegrees(problem, {.pp = {8}});
  std::erase_if(points, [](const Degrees& d) { return d.chunks != 3; });
  std::vector<Proposal> plans = BestExperts(problem, points, "", nullptr, 1);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].plan.stages.size(), 24u);
  EXPECT_THAT(Verify(plans[0].plan, model), testing::IsEmpty());
}

TEST(ExpertGrid, PlansAreSoundAndTheSameEachTime) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  for (const Model* model : {&Llama(), &Moe()}) {
    SearchProblem problem{.model = *model, .cluster = cluster};
    std::vector<Proposal> first = ExpertGrid(problem, nullptr),
                          second = ExpertGrid(problem, nullptr);
    ASSERT_FALSE(first.empty());
    ASSERT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_THAT(Verify(first[i].plan, *model), testing::IsEmpty()) << first[i].from;
      EXPECT_EQ(ToJson(first[i].plan, *model), ToJson(second[i].plan, *model));
      EXPECT_GT(first[i].estimate, 0);
      EXPECT_GT(first[i].bytes, 0);
    }
  }
}

// Estimates are near the simulated step.
TEST(ExpertGrid, EstimatesAreNearTheSimulator) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  SearchProblem problem{.model = Llama(), .cluster = cluster};
  std::vector<Proposal> plans = ExpertGrid(problem, nullptr);
  ASSERT_FALSE(plans.empty());
  JudgedPlan judged = Judge(problem, plans[0]);
  EXPECT_TRUE(judged.fits);
  EXPECT_NEAR(judged.result.step_seconds / judged.estimate, 1, 0.25);
}

// The less memory there is, the more layers are recomputed, until the plan fits.
TEST(ExpertGrid, LayersAreRecomputedUntilThePlanFits) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  SearchProblem problem{.model = Llama(), .cluster = cluster};
  problem.fixed = {.dp = 8, .tp = 1, .pp = 1, .microbatches = 1, .zero = 1};
  problem.fixed.offload = Offload::kNone;
  problem.reserve = 0;
  std::vector<Proposal> unlimited = ExpertGrid(problem, nullptr);
  ASSERT_FALSE(unlimited.empty());
  JudgedPlan plain = Judge(problem, unlimited[0]);
  ASSERT_TRUE(plain.fits);
  EXPECT_FALSE(Recomputes(plain.plan));
  problem.memory_limit = plain.reserved() * 85 / 100;
  std::vector<Proposal> tight = ExpertGrid(problem, nullptr);
  ASSERT_FALSE(tight.empty());
  JudgedPlan fitted = Judge(problem, tight[0]);
  EXPECT_TRUE(fitted.fits) << fitted.reserved() << " of " << problem.memory_limit;
  EXPECT_TRUE(Recomputes(fitted.plan));
}

// If a known plan is faster than all points of the grid, nothing is proposed.
TEST(ExpertGrid, PointsThatCannotWinAreLeftOut) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  SearchProblem problem{.model = Llama(), .cluster = cluster};
  JudgedPlan best;
  best.fits = true;
  best.result.step_seconds = 1e-9;
  EXPECT_TRUE(ExpertGrid(problem, &best).empty());
}

// The grid may be evaluated before the best plan is known, with a larger or smaller time to compare with.
TEST(ExpertGrid, MayBeWeighedBeforeTheBestPlanIsKnown) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  SearchProblem problem{.model = Llama(), .cluster = cluster};
  std::vector<Proposal> fastest = ExpertGrid(problem, nullptr);
  ASSERT_FALSE(fastest.empty());
  JudgedPlan best = Judge(problem, fastest[0]);
  ASSERT_TRUE(best.fits);
  best.result.step_seconds *= 1.02;
  best.estimate = 0;
  std::vector<Proposal> plain = ExpertGrid(problem, &best);
  ASSERT_FALSE(plain.empty());
  for (double guess : {1.03, 0.5}) {
    WeighedGrid grid = WeighExpertGrid(problem, guess * best.result.step_seconds);
    std::vector<Proposal> later = grid.plans(&best);
    // Those that are simulated ahead have an axis that the exact search does not have.
    for (const Proposal& plan : grid.likely) {
      const std::vector<MeshAxis>& axes = plan.plan.stages.front().mesh.axes;
      EXPECT_TRUE(std::any_of(axes.begin(), axes.end(), [](const MeshAxis& axis) {
        return axis.name == "cp" || axis.name == "ep";
      })) << plan.from;
    }
    ASSERT_FALSE(later.empty());
    EXPECT_EQ(later[0].plan, plain[0].plan);
    if (guess < 1) {
      EXPECT_EQ(later.size(), plain.size());
    }
  }
}

}  // namespace
}  // namespace heddle
