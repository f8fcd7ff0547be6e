// Compares what the search claims about single stages with the simulator: its additive optimum
// equals that of brute force, and no lower bound exceeds the optimum or the simulated step of any
// plan. bound_check_test.cc tests whole plans.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "random_plan.h"
#include "search/prices/random_model.h"
#include "search/prices/stage_problem.h"
#include "search/solver/brute.h"
#include "search/solver/eliminate.h"
#include "search/solver/limited.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

// Bytes on a device: activations of a micro-batch, what is held throughout, and 16 per parameter.
Problem WithBytes(const StageProblem& stage, double microbatches) {
  StageScale scale;
  scale.microbatches = microbatches;
  scale.bytes_per_parameter = 16;
  return Weighed(stage, scale);
}

struct RandomStage {
  Model model;
  Mesh mesh;
  int64_t microbatches = 1;
  RecomputePolicy recompute = RecomputePolicy::kNone;
};

// `more`: how many nodes may be added. Meshes of two axes get few.
RandomStage MakeStage(Random& rng, int round, size_t more) {
  static const std::vector<std::vector<int64_t>> kMeshes = {{2}, {4}, {3}, {2, 2}, {8}, {2}};
  size_t m = static_cast<size_t>(round) % kMeshes.size();
  size_t nodes = static_cast<size_t>(3 + Below(rng, m == 3 ? 3 : more));
  RandomStage made{RandomModel(rng, nodes, static_cast<int>(2 * Below(rng, 8))),
                   MeshOfSizes(kMeshes[m])};
  int64_t microbatches = int64_t{1} << Below(rng, 5);
  if (BatchSize(made.model) >= microbatches) made.microbatches = microbatches;
  made.recompute = static_cast<RecomputePolicy>(Below(rng, kRecomputePolicies.size()));
  return made;
}

CostOptions OptionsOf(const RandomStage& at) {
  CostOptions options;
  options.parts = at.microbatches;
  options.microbatches = static_cast<double>(at.microbatches);
  return options;
}

// The additive optimum under a memory limit, before anything is simulated.
TEST(Bounds, AdditiveOptimumEqualsBruteForce) {
  Random rng(5);
  Cluster cluster = LoadCluster("dgx-h100:1");
  int solved = 0, binding = 0, infeasible = 0;
  for (int round = 0; round < 3000 && solved < 400; ++round) {
    RandomStage at = MakeStage(rng, round, 4);
    StageCosts costs(at.model, cluster, at.mesh, OptionsOf(at));
    StageProblem stage =
        MakeStageProblem(costs, 0, static_cast<int>(at.model.blocks.size()), at.recompute);
    Problem problem = WithBytes(stage, static_cast<double>(at.microbatches));
    if (Assignments(problem) > 300'000) continue;
    SCOPED_TRACE(round);
    Solution cheapest = Brute(problem);
    ASSERT_LT(cheapest.objective, kForbidden);
    double most = Evaluate(problem, cheapest.choice).bytes;
    double least = Evaluate(problem, Brute(problem, {0, 0, 1}).choice).bytes;
    double limit = kForbidden;
    if (solved % 4 != 0) {          // otherwise in between, sometimes the minimum or less
      if (least == most) continue;  // no limit would be active
      limit = least + (most - least) * static_cast<double>(Below(rng, 1000)) / 1000;
      if (solved % 16 == 1) limit = least;
      if (solved % 16 == 2) limit = 0.9 * least;
    }
    ++solved;
    std::optional<Solution> want = BruteLimited(problem, {1, 1, 0}, limit);
    LimitedSolution got = SolveLimited(problem, {.limit = limit});
    EXPECT_TRUE(got.proven);
    ASSERT_EQ(got.best.has_value(), want.has_value());
    if (!want) {
      ++infeasible;
      EXPECT_EQ(got.lower_bound, kForbidden);
      continue;
    }
    binding += want->objective > cheapest.objective * (1 + 1e-12) ? 1 : 0;
    EXPECT_NEAR(got.best->objective, want->objective, 1e-9 * want->objective);
    EXPECT_LE(Evaluate(problem, got.best->choice).bytes, limit);
    EXPECT_LE(got.lower_bound, want->objective * (1 + 1e-9));
  }
  fmt::print("{} problems, {} with a limit that binds, {} without a choice that fits\n", solved,
             binding, infeasible);
  EXPECT_GE(solved, 300);
  EXPECT_GE(2 * binding, solved);
  EXPECT_GE(infeasible, 10);
}

Plan OneStage(const RandomStage& at, const Cluster& cluster, std::vector<Strategy> strategies) {
  Plan plan;
  plan.model.hash = StableHash(at.model.graph);
  plan.cluster = cluster;
  plan.batch = std::max<int64_t>(1, BatchSize(at.model));
  plan.microbatches = at.microbatches;
  Stage stage;
  stage.last_block = static_cast<int>(at.model.blocks.size());
  stage.mesh = at.mesh;
  stage.strategies = std::move(strategies);
  stage.recompute.assign(at.model.blocks.size(), at.recompute);
  stage.times = {1, 1, 1};
  plan.stages.push_back(std::move(stage));
  return plan;
}

// The bound on a stage's computation and waiting holds for all strategies: the simulator is never
// faster. The same for every plan on its own, with the cheapest copies of values.
TEST(Bounds, NoPlanIsSimulatedFaster) {
  Random rng(6);
  Cluster cluster = LoadCluster("dgx-h100:1");
  int graphs = 0, plans = 0, known = 0;
  double closest = 0, closest_own = 0;
  for (int round = 0; round < 1200 && graphs < 500; ++round) {
    RandomStage at = MakeStage(rng, round, 14);
    StageCosts costs(at.model, cluster, at.mesh, OptionsOf(at));
    StageProblem stage =
        MakeStageProblem(costs, 0, static_cast<int>(at.model.blocks.size()), at.recompute);
    std::optional<Solution> fastest = SolveFolded(stage.problem, {1, 0, 0});
    std::optional<Solution> best = SolveFolded(stage.problem);
    if (!fastest || !best) continue;
    ++graphs;
    double m = static_cast<double>(at.microbatches);
    double bound = m * fastest->objective;
    std::vector<std::vector<Strategy>> all = {StrategiesOf(stage, fastest->choice),
                                              StrategiesOf(stage, best->choice)};
    for (int i = 0; i < 3; ++i) {
      std::vector<int> choice;
      for (size_t v = 0; v < stage.costs.size(); ++v) {
        choice.push_back(static_cast<int>(Below(rng, stage.costs[v]->size())));
      }
      all.push_back(StrategiesOf(stage, choice));
    }
    for (int i = 0; i < 2; ++i) {  // including strategies that the search discards
      std::vector<Strategy>& any = all.emplace_back();
      for (size_t n = 0; n < at.model.graph.nodes.size(); ++n) {
        bool here = stage.nodes[n].variable >= 0;
        bool expand = at.model.block_of[n] >= 0;
        any.push_back(here ? RandomStrategy(at.model.graph.nodes[n].op, at.model.rules[n], at.mesh,
                                            expand, rng)
                           : Strategy());
      }
    }
    for (size_t i = 0; i < all.size(); ++i) {
      Plan plan = OneStage(at, cluster, all[i]);
      ASSERT_THAT(Verify(plan, at.model), testing::IsEmpty()) << round;
      double step = Simulate(Lower(at.model, plan), cluster, {}).step_seconds;
      ++plans;
      EXPECT_LE(bound, step * (1 + 1e-9)) << "round " << round << " plan " << i;
      closest = std::max(closest, bound / step);
      std::optional<std::vector<int>> fixed = ChoicesOf(costs, stage, all[i]);
      if (!fixed) continue;
      std::optional<Solution> own = SolveWhole(Restrict(stage.problem, *fixed), {1, 0, 0});
      if (!own || own->objective == kForbidden) continue;
      ++known;
      EXPECT_LE(m * own->objective, step * (1 + 1e-9)) << "round " << round << " plan " << i;
      closest_own = std::max(closest_own, m * own->objective / step);
    }
  }
  fmt::print("{} graphs, {} plans, {} of strategies considered; closest {:.4f}, own {:.4f}\n",
             graphs, plans, known, closest, closest_own);
  EXPECT_GE(graphs, 300);
}

}  // namespace
}  // namespace heddle
