#include "search/remedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "program/testing.h"

namespace heddle {
namespace {

// Sets every field of the problem to a value that differs from its default.
SearchProblem Unusual(const Model& model, const Cluster& cluster) {
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed = {.dp = 2, .recompute = RecomputePolicy::kFull};
  problem.precision = DType::kF16;
  problem.gradients = DType::kF16;
  problem.products = Products::kFp8;
  problem.optimizer = "sgd";
  problem.local_batch_statistics = true;
  problem.bucket_bytes = 12345;
  problem.memory_limit = 1000;
  problem.reserve = 0.25;
  problem.whole = {"wte"};
  problem.sim.fused_attention = !problem.sim.fused_attention;
  problem.pruning = PruneAll(model, 0.9);
  return problem;
}

TEST(OnCluster, CopiesEverythingButTheCluster) {
  const Model model = SmallModel(8);
  const Cluster small = LoadCluster("local:1"), large = LoadCluster("local:4");
  const SearchProblem problem = Unusual(model, small);
  const SearchProblem moved = OnCluster(problem, large);
  EXPECT_EQ(&moved.model, &model);
  EXPECT_EQ(&moved.cluster, &large);
  EXPECT_EQ(moved.fixed.dp, 2);
  EXPECT_EQ(moved.fixed.recompute, RecomputePolicy::kFull);
  EXPECT_EQ(moved.precision, DType::kF16);
  EXPECT_EQ(moved.gradients, DType::kF16);
  EXPECT_EQ(moved.products, problem.products);
  EXPECT_EQ(moved.optimizer, "sgd");
  EXPECT_TRUE(moved.local_batch_statistics);
  EXPECT_EQ(moved.bucket_bytes, 12345);
  EXPECT_EQ(moved.memory_limit, 1000);
  EXPECT_EQ(moved.reserve, 0.25);
  EXPECT_EQ(moved.whole, problem.whole);
  EXPECT_EQ(moved.sim.fused_attention, problem.sim.fused_attention);
  EXPECT_EQ(moved.pruning.sparsity, 0.9);
  EXPECT_EQ(moved.pruning.kept.size(), problem.pruning.kept.size());
}

// A remedy must be computed for the user's optimizer and pruning, here SGD and a tenth of the
// weights, not for the defaults.
TEST(Remedy, MoreDevicesAreTriedWithTheProblemThatWasAsked) {
  const Model model = SmallModel(8);
  const Cluster cluster = LoadCluster("local:1");
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.optimizer = "sgd";
  problem.pruning = PruneAll(model, 0.9);
  problem.memory_limit = 1;
  static std::vector<int64_t> devices;  // a searcher is a function pointer without captures
  SearcherDef searcher{"test", "", [](const SearchTask& task) {
                         EXPECT_EQ(task.optimizer, "sgd");
                         EXPECT_EQ(task.pruning.sparsity, 0.9);
                         devices.push_back(DeviceCount(task.cluster));
                         return Proposals();
                       }};
  EXPECT_THROW(RequireFitting({}, searcher, problem), Infeasible);
  EXPECT_THAT(devices, testing::ElementsAre(2, 4, 8, 16, 32, 64));
}

}  // namespace
}  // namespace heddle
