#include "search/prices/stage_problem.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cluster/load.h"
#include "ops/op.h"
#include "search/prices/random_model.h"
#include "search/solver/brute.h"
#include "search/solver/eliminate.h"

namespace heddle {
namespace {

using Random = std::mt19937_64;
size_t OneOf(Random& rng, size_t bound) { return static_cast<size_t>(rng() % bound); }

TEST(StageProblem, EliminationEqualsBruteForceOnRandomModels) {
  Random rng(11);
  Cluster cluster = LoadCluster("dgx-h100:1");
  const std::vector<std::vector<int64_t>> meshes = {{2}, {4}, {2, 2}};
  std::vector<int> solved(meshes.size(), 0);
  for (int round = 0; round < 2000 && solved[0] + solved[1] + solved[2] < 360; ++round) {
    size_t m = static_cast<size_t>(round) % meshes.size();
    if (solved[m] >= 120) continue;
    Model model = RandomModel(rng, 3 + OneOf(rng, m == 2 ? 2 : 4));
    CostOptions options;
    StageCosts costs(model, cluster, MeshOfSizes(meshes[m]), options);
    StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
    if (Assignments(stage.problem) > (m == 2 ? kMaxBruteAssignments : 4000000)) continue;
    double bytes = round % 2 == 0 ? 0 : 1e-12;
    Solution want = Brute(stage.problem, {1, 1, bytes});
    std::optional<Solution> got = SolveWhole(stage.problem, {1, 1, bytes});
    ASSERT_TRUE(got.has_value());
    ASSERT_LT(want.objective, kForbidden);
    EXPECT_NEAR(got->objective, want.objective, 1e-12 * want.objective);
    EXPECT_NEAR(SolveFolded(stage.problem, {1, 1, bytes})->objective, want.objective,
                1e-12 * want.objective);
    ++solved[m];
  }
  fmt::print("solved: {} on 2, {} on 4, {} on 2x2\n", solved[0], solved[1], solved[2]);
  EXPECT_GE(solved[0] + solved[1] + solved[2], 300);
  EXPECT_GE(solved[2], 30);
}

// A choice that is forbidden stays forbidden even if done once in infinitely many micro-batches.
TEST(StageProblem, WhatIsForbiddenIsSoHoweverRarely) {
  Model model = Analyse([] {
    Graph graph;
    graph.name = "once";
    ValueId x = graph.AddValue("x", {DType::kF32, {8, 16}}, ValueKind::kInput);
    ValueId w = graph.AddValue("w", {DType::kF32, {16, 16}}, ValueKind::kParameter);
    // Computed from parameters alone.
    ValueId scaled = AddOp(graph, "Mul", {}, {w, w}, "scaled")[0];
    ValueId square = AddOp(graph, "MatMul", {}, {scaled, w}, "square")[0];
    ValueId sum = AddOp(graph, "Add", {}, {square, scaled}, "sum")[0];
    ValueId y = AddOp(graph, "MatMul", {}, {x, sum}, "y")[0];
    Attributes axes = {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}};
    graph.outputs = AddOp(graph, "ReduceSum", axes, {y}, "loss");
    return graph;
  }());
  Cluster cluster = LoadCluster("dgx-h100:1");
  StageCosts costs(model, cluster, MeshOfSizes({2}), {.microbatches = kForbidden});
  StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
  int forbidden = 0;
  for (const PairCost& pair : stage.problem.pairs) {
    for (double entry : *pair.seconds) {
      EXPECT_FALSE(std::isnan(entry));
      forbidden += entry == kForbidden ? 1 : 0;
    }
  }
  EXPECT_GT(forbidden, 0);
  EXPECT_LT(SolveWhole(stage.problem)->objective, kForbidden);
}

}  // namespace
}  // namespace heddle
