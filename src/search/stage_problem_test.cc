#include "search/stage_problem.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "cluster/load.h"
#include "ops/op.h"
#include "search/brute.h"
#include "search/eliminate.h"

namespace heddle {
namespace {

using Random = std::mt19937_64;
size_t Below(Random& rng, size_t bound) { return static_cast<size_t>(rng() % bound); }

// Products, sums, activations and reductions over what there is so far; the loss is the sum of the last.
Model RandomModel(Random& rng, size_t nodes) {
  Graph graph;
  graph.name = "random";
  int64_t rows = 4 << Below(rng, 3), width = 4 << Below(rng, 8);
  std::vector<ValueId> values = {
      graph.AddValue("x", {DType::kF32, {rows, width}}, ValueKind::kInput)};
  ValueId shared = graph.AddValue("w", {DType::kF32, {width, width}}, ValueKind::kParameter);
  for (size_t n = 0; n + 1 < nodes; ++n) {
    ValueId a = values[values.size() - 1 - Below(rng, std::min<size_t>(2, values.size()))];
    ValueId b = values[Below(rng, values.size())];
    std::string name = fmt::format("v{}", n);
    size_t kind = n == 0 ? 0 : Below(rng, 5);
    if (kind <= 1) {
      ValueId w = Below(rng, 3) == 0 ? shared
                                     : graph.AddValue("w" + name, {DType::kF32, {width, width}},
                                                      ValueKind::kParameter);
      values.push_back(AddOp(graph, "MatMul", {}, {a, w}, name)[0]);
    } else if (kind == 2) {
      values.push_back(AddOp(graph, "Add", {}, {a, b}, name)[0]);
    } else if (kind == 3) {
      values.push_back(AddOp(graph, "Mul", {}, {a, b}, name)[0]);
    } else {
      values.push_back(AddOp(graph, "Relu", {}, {a}, name)[0]);
    }
  }
  Attributes axes = {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}};
  graph.outputs = AddOp(graph, "ReduceSum", axes, {values.back()}, "loss");
  return Analyse(std::move(graph));
}

Mesh MeshOf(std::vector<int64_t> sizes) {
  Mesh mesh;
  for (size_t a = 0; a < sizes.size(); ++a) {
    mesh.axes.push_back({std::string(1, static_cast<char>('x' + a)), sizes[a]});
  }
  return mesh;
}

TEST(StageProblem, EliminationEqualsBruteForceOnRandomModels) {
  Random rng(11);
  Cluster cluster = LoadCluster("dgx-h100:1");
  const std::vector<std::vector<int64_t>> meshes = {{2}, {4}, {2, 2}};
  std::vector<int> solved(meshes.size(), 0);
  for (int round = 0; round < 2000 && solved[0] + solved[1] + solved[2] < 360; ++round) {
    size_t m = static_cast<size_t>(round) % meshes.size();
    if (solved[m] >= 120) continue;
    Model model = RandomModel(rng, 3 + Below(rng, m == 2 ? 2 : 4));
    CostOptions options;
    StageCosts costs(model, cluster, MeshOf(meshes[m]), options);
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

}  // namespace
}  // namespace heddle
