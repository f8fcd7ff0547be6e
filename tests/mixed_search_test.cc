// Plans for unlike devices and links.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "cluster/random_topology.h"
#include "cluster/select.h"
#include "cluster/testing.h"
#include "cluster/topology.h"
#include "cluster/yaml.h"
#include "frontend/families/built_in.h"
#include "plan/precision.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "run_binary.h"
#include "search/judge/judge.h"
#include "search/placement/placement_game.h"
#include "search/prices/links.h"
#include "search/prices/stage_problem.h"
#include "search/searcher.h"
#include "search/searchers.h"
#include "search/solver/eliminate.h"

namespace heddle {
namespace {

constexpr const char* kTiny = "gpt:layers=4,hidden=128,heads=4,seq=32,vocab=1000,batch=24";
constexpr const char* kConvolutions = "vgg:depth=11,ffn=256,classes=100,batch=24";

SearchTask ProblemOf(const Model& model, const Cluster& cluster) {
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.precision = DType::kF32;
  problem.local_batch_statistics = true;
  SearchTask task(problem);
  task.effort.playouts = 60;
  return task;
}

// Every strategy of the tree search is a plan that can run: it is valid, lowers to a valid program and can be
// simulated.
TEST(Placements, AnyStrategyIsASoundPlan) {
  std::mt19937_64 rng(1);
  size_t made = 0, shared = 0;
  for (const char* expression : {kTiny, kConvolutions}) {
    Model model = Analyse(BuildModel(expression));
    for (uint64_t seed : {3, 4, 5}) {
      Cluster cluster = RandomTopology(seed, 1e11);
      SearchTask problem = ProblemOf(model, cluster);
      Model computed = WithComputeType(model, problem.precision);
      Placements space(problem, computed);
      for (int i = 0; i < 12; ++i) {
        std::vector<int> some(1 + rng() % 3);
        for (int& action : some) action = static_cast<int>(rng() % space.actions().size());
        PlacementStrategy strategy;
        for (size_t d = 0; d < space.decisions().size(); ++d) {
          strategy.push_back(some[rng() % some.size()]);
        }
        Policy policy;
        policy.microbatches = i % 3 == 0 ? 2 : 1;
        std::optional<Plan> plan = space.ToPlan(strategy, policy);
        if (!plan) continue;
        ++made;
        EXPECT_EQ(Verify(*plan, model), std::vector<std::string>());
        Program program = Lower(model, *plan);
        EXPECT_EQ(Verify(program), std::vector<std::string>());
        EXPECT_GT(Simulate(program, cluster, {}).step_seconds, 0);
        for (size_t s = 1; s < plan->stages.size(); ++s) {
          const Mesh &a = plan->stages[s - 1].mesh, &b = plan->stages[s].mesh;
          shared += ShareDevices(a, b) && !SameDevices(a, b) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(made, 50u);
  EXPECT_GT(shared, 10u);  // includes stages that share some of their devices
}

TEST(Placements, SharesFollowSpeed) {
  Model model = Analyse(BuildModel("gpt:layers=2,hidden=1024,heads=8,seq=256,vocab=1000,batch=48"));
  Cluster cluster = FastAndSlow();
  SearchTask problem = ProblemOf(model, cluster);
  Model computed = WithComputeType(model, problem.precision);
  Placements space(problem, computed);
  std::optional<Plan> plan = space.ToPlan(space.Everywhere(), {});
  ASSERT_TRUE(plan);
  const MeshAxis& axis = plan->stages.at(0).mesh.axes.at(0);
  ASSERT_EQ(axis.shares.size(), 2u);
  EXPECT_EQ(axis.shares[0] + axis.shares[1], 48);
  double ratio = static_cast<double>(axis.shares[0]) / static_cast<double>(axis.shares[1]);
  EXPECT_NEAR(ratio, 4, 0.5);
  // If the fast device has too little memory, the slow one has the rest.
  std::optional<Plan> less = space.Widened(*plan, 3, {20, INT64_MAX});
  ASSERT_TRUE(less);
  EXPECT_EQ(less->stages.at(0).mesh.axes.at(0).shares, (std::vector<int64_t>{20, 28}));
}

// The greedy shares are optimal, compared with all possible shares.
TEST(Placements, GreedySharesAreOptimal) {
  std::mt19937_64 rng(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> fixed, each;
    for (int d = 0; d < 3; ++d) {
      fixed.push_back(static_cast<double>(rng() % 100));
      each.push_back(1 + static_cast<double>(rng() % 100));
    }
    auto seconds = [&](size_t d, int64_t n) {
      return n == 0 ? 0 : fixed[d] + each[d] * static_cast<double>(n);
    };
    auto longest = [&](const std::vector<int64_t>& shares) {
      double most = 0;
      for (size_t d = 0; d < 3; ++d) most = std::max(most, seconds(d, shares[d]));
      return most;
    };
    double least = 1e30;
    for (int64_t a = 0; a <= 12; ++a) {
      for (int64_t b = 0; a + b <= 12; ++b) least = std::min(least, longest({a, b, 12 - a - b}));
    }
    EXPECT_EQ(longest(ShareSamples(12, 3, seconds)), least);
  }
}

TEST(MixedSearch, NeverSlowerThanDataAndTheSameEachTime) {
  Model model = Analyse(BuildModel(kConvolutions));
  size_t mixed = 0;
  for (uint64_t seed = 0; seed < 12 && mixed < 2; ++seed) {
    Cluster cluster = RandomTopology(seed, 1e11);
    if (IsHomogeneous(cluster)) continue;
    ++mixed;
    SearchTask problem = ProblemOf(model, cluster);
    SearchResult found = Search(MctsSearcher(), problem);
    ASSERT_TRUE(found.feasible());
    double step = found.judged.front().result.step_seconds;
    size_t proportional = 0;
    for (const JudgedPlan& judged : found.judged) {
      if (judged.fits) {
        EXPECT_LE(step, judged.result.step_seconds);
      }
      proportional += judged.from == kProportional ? 1 : 0;
    }
    EXPECT_EQ(proportional, 1u);
    SearchResult again = Search(MctsSearcher(), problem);
    EXPECT_EQ(again.judged.front().plan, found.judged.front().plan);
  }
  EXPECT_EQ(mixed, 2u);
}

// Prices of collectives are those of the devices that a stage names.
TEST(MixedSearch, LinksAreOfNamedDevices) {
  Cluster cluster = TagTestbed();
  Network network(cluster);
  Mesh near, far;
  near.axes = far.axes = {{"dp", 2}};
  Place(near, {14, 15});  // devices of one machine
  Place(far, {0, 15});
  double bytes = 1e9;
  double inside = MeshLinks(network, near).Seconds(CollectiveKind::kAllReduce, 1, bytes);
  double between = MeshLinks(network, far).Seconds(CollectiveKind::kAllReduce, 1, bytes);
  EXPECT_NEAR(between, bytes / 2.81e9, 0.01 * between);  // 2 (n - 1) / n of them
  EXPECT_LT(inside, between);
}

// With machines of unlike sizes, a stage may be in the middle of a machine, at a device number that its size divides.
TEST(MixedSearch, StagesInsideMachinesOfAnySize) {
  Model model = Analyse(BuildModel(kTiny));
  Cluster cluster = ClusterFromYaml(
      "link: {name: wide, bandwidth: 3 GB/s, latency: 9 us}\n"
      "nodes:\n"
      "  - {name: four, count: 1, device: gtx-1080ti, devices: 4, link: {name: in, bandwidth: 8 "
      "GB/s, latency: 1 us}}\n"
      "  - {name: six, count: 1, device: gtx-1080ti, devices: 6, link: {name: in, bandwidth: 8 "
      "GB/s, latency: 1 us}}\n",
      "sizes");
  Mesh mesh;
  mesh.first = 6;
  mesh.axes = {{"tp", 2}};
  StageCosts costs(model, cluster, mesh, {});
  StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
  EXPECT_LT(SolveFolded(stage.problem, {})->objective, kForbidden);
}

// More types never make it worse.
TEST(MixedSearch, AtLeastAsGoodAsAnyOneType) {
  Model model = Analyse(BuildModel(kTiny));
  Cluster cluster = TagTestbed();
  SearchTask problem = ProblemOf(model, cluster);
  double all = Search(AutoSearcher(), problem).judged.front().result.step_seconds;
  for (const DeviceRun& run : EqualRuns(cluster)) {
    std::vector<int64_t> devices;
    for (int64_t d = 0; d < run.count; ++d) devices.push_back(run.first.value + d);
    Cluster part = Select(cluster, devices);
    SearchTask alone = ProblemOf(model, part);
    SearchResult found = Search(AutoSearcher(), alone);
    if (found.feasible()) {
      EXPECT_LE(all, found.judged.front().result.step_seconds * (1 + 1e-9));
    }
  }
}

TEST(MixedSearch, MistakesAreOneLine) {
  TempFolder folder;
  auto refused = [&](const std::string& cluster, const std::string& options,
                     const std::vector<std::string>& parts) {
    std::ofstream(folder / "mixed.yaml") << cluster;
    ExpectRefused("plan gpt2 --batch 16 " + options + " --cluster " + folder / "mixed.yaml", parts);
  };
  std::string link = "link: {name: eth, bandwidth: 1 GB/s, latency: 5 us}\n";
  std::string two = "nodes: [{preset: dgx-h100, count: 1}, {preset: dgx-a100, count: 1}]\n";
  refused(two, "", {"mixed.yaml:1: link: missing: 2 members are not connected"});
  refused(link + "device_types: [{name: slow, memory: 16 GB, memory_bandwidth: 1 TB/s}]\n" +
              "nodes: [{preset: dgx-h100, count: 1}, {device: slow, devices: 2, count: 1}]\n",
          "", {"mixed.yaml:2: device_types[0]: no rate above 0"});
  refused(link + two, "--dp 16 --shares 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,0",
          {"--shares: 0: expected a whole number from 1"});
  refused(link + two, "--dp 16 --shares 100,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", {"a share of 100"});
}

}  // namespace
}  // namespace heddle
