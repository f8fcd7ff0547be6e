// The exact search inside a stage on built-in models, folded or not: it is never worse than the expert's plan with the
// same cost tables. Prints the growth of its time with layers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "search/prices/stage_problem.h"
#include "search/solver/chain_runs.h"
#include "search/solver/eliminate.h"
#include "search/solver/ilp.h"

namespace heddle {
namespace {

Model Gpt(int layers) {
  return Analyse(BuildModel(
      fmt::format("gpt:layers={},hidden=512,heads=8,seq=128,vocab=4096,batch=8", layers)));
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Search, NeverAboveTheExpert) {
  Model model = Gpt(3);
  Cluster cluster = LoadCluster("dgx-h100:1");
  for (auto [dp, tp, sp] :
       {std::tuple(2, 1, false), std::tuple(1, 2, false), std::tuple(2, 2, false),
        std::tuple(1, 4, true), std::tuple(2, 2, true)}) {
    Degrees degrees;
    degrees.dp = dp;
    degrees.tp = tp;
    degrees.sp = sp;
    Plan plan = ExpertPlan(model, cluster, degrees);
    StageCosts costs(model, cluster, plan.stages[0].mesh, {});
    StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
    std::optional<Solution> best = SolveFolded(stage.problem);
    ASSERT_TRUE(best.has_value());
    std::optional<std::vector<int>> fixed = ChoicesOf(costs, stage, plan.stages[0].strategies);
    ASSERT_TRUE(fixed.has_value());
    std::optional<Solution> expert = SolveWhole(Restrict(stage.problem, *fixed));
    ASSERT_TRUE(expert.has_value());
    fmt::print("dp {} tp {} sp {}: best {:.6f} s, expert {:.6f} s\n", dp, tp, sp, best->objective,
               expert->objective);
    EXPECT_LT(expert->objective, kForbidden);
    EXPECT_LE(best->objective, expert->objective * (1 + 1e-12));
    // The best strategies can be lowered.
    plan.stages[0].strategies = StrategiesOf(stage, best->choice);
    EXPECT_THAT(Verify(plan, model), testing::IsEmpty());
    EXPECT_THAT(Verify(Lower(model, plan)), testing::IsEmpty());
  }
}

TEST(Search, FoldedEqualsWhole) {
  Model model = Gpt(6);
  Cluster cluster = LoadCluster("dgx-h100:1");
  Mesh mesh{0, {{"x", 2}}};
  StageCosts costs(model, cluster, mesh, {});
  StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
  EXPECT_FALSE(FindRuns(stage.problem).empty());
  std::optional<Solution> whole = SolveWhole(stage.problem), folded = SolveFolded(stage.problem);
  ASSERT_TRUE(whole.has_value() && folded.has_value());
  EXPECT_NEAR(folded->objective, whole->objective, 1e-12 * whole->objective);
  EXPECT_EQ(SolveFolded(stage.problem)->choice, folded->choice);
}

// For a range of blocks, incoming values are available in any sharding, and outgoing values must be complete.
TEST(Search, RangesOfBlocks) {
  Model model = Gpt(6);
  Cluster cluster = LoadCluster("dgx-h100:1");
  StageCosts costs(model, cluster, Mesh{0, {{"x", 2}, {"y", 2}}}, {.parts = 2, .microbatches = 2});
  int blocks = static_cast<int>(model.blocks.size());
  for (auto [first, last] : {std::pair(0, blocks / 2), std::pair(blocks / 2, blocks),
                             std::pair(2, blocks - 2), std::pair(3, 4)}) {
    StageProblem stage = MakeStageProblem(costs, first, last);
    std::optional<Solution> whole = SolveWhole(stage.problem), folded = SolveFolded(stage.problem);
    ASSERT_TRUE(whole.has_value() && folded.has_value());
    EXPECT_LT(whole->objective, kForbidden);
    EXPECT_NEAR(folded->objective, whole->objective, 1e-12 * whole->objective);
  }
}

// An encoder's output, which every block of the decoder reads.
TEST(Search, ValuesThatEveryBlockReads) {
  Model model = Analyse(BuildModel("t5:layers=4"));
  Cluster cluster = LoadCluster("dgx-h100:1");
  StageCosts costs(model, cluster, Mesh{0, {{"x", 2}}}, {});
  StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
  std::vector<ChainRun> runs = FindRuns(stage.problem);
  EXPECT_TRUE(std::any_of(runs.begin(), runs.end(),
                          [](const ChainRun& run) { return !run.outside.empty(); }));
  std::optional<Solution> whole = SolveWhole(stage.problem), folded = SolveFolded(stage.problem);
  ASSERT_TRUE(whole.has_value() && folded.has_value());
  EXPECT_NEAR(folded->objective, whole->objective, 1e-12 * whole->objective);
}

TEST(Search, EqualsTheIntegerProgram) {
  if (!HasIlp()) GTEST_SKIP() << "built without CBC";
  Model model = Analyse(BuildModel("gpt:layers=2,hidden=64,heads=4,seq=16,vocab=128,batch=8"));
  Cluster cluster = LoadCluster("dgx-h100:1");
  StageCosts costs(model, cluster, Mesh{0, {{"x", 2}, {"y", 2}}}, {});
  StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
  std::optional<Solution> folded = SolveFolded(stage.problem);
  IlpResult ilp = SolveIlp(stage.problem);
  ASSERT_TRUE(folded.has_value() && ilp.solution.has_value());
  EXPECT_TRUE(ilp.proven);
  EXPECT_NEAR(ilp.solution->objective, folded->objective, 1e-9 * folded->objective);
}

// Times are printed and not asserted, because machines differ.
TEST(Search, TimeGrowsSlowlyWithLayers) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  Mesh mesh{0, {{"x", 2}, {"y", 2}}};
  for (int layers : {12, 96}) {
    Model model = Gpt(layers);
    auto start = std::chrono::steady_clock::now();
    StageCosts costs(model, cluster, mesh, {});
    StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
    double made = SecondsSince(start);
    start = std::chrono::steady_clock::now();
    std::optional<Solution> best = SolveFolded(stage.problem);
    double solved = SecondsSince(start);
    ASSERT_TRUE(best.has_value());
    size_t largest = 0;
    for (size_t v = 0; v < stage.problem.unary.size(); ++v)
      largest = std::max(largest, stage.problem.domain(static_cast<int>(v)));
    fmt::print(
        "{} layers: {} variables (largest domain {}), {:.3f} s to make, {:.3f} s to solve, best "
        "{:.6f} s\n",
        layers, stage.problem.unary.size(), largest, made, solved, best->objective);
  }
}

}  // namespace
}  // namespace heddle
