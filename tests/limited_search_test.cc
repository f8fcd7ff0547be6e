// The exact search inside a stage under a memory limit, on built-in models: its results fit. Prints the proven gap to
// the minimum and the time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "cluster/load.h"
#include "cluster/select.h"
#include "cluster/topology.h"
#include "frontend/families/built_in.h"
#include "search/judge/judge.h"
#include "search/prices/stage_problem.h"
#include "search/searcher.h"
#include "search/solver/eliminate.h"
#include "search/solver/limited.h"

namespace heddle {
namespace {

double Elapsed(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Times are printed and not asserted, because machines differ.
TEST(LimitedSearch, GptWithinAThousandth) {
  Model model =
      Analyse(BuildModel("gpt:layers=24,hidden=1024,heads=16,seq=1024,vocab=51200,batch=8"));
  Cluster cluster = LoadCluster("dgx-h100:1");
  int fit = 0;
  for (const Mesh& mesh : {Mesh{0, {{"x", 8}}}, Mesh{0, {{"x", 2}, {"y", 2}}}}) {
    StageCosts costs(model, cluster, mesh, {});
    StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
    Problem problem = Weighed(stage, {.bytes_per_parameter = 16});
    std::optional<Solution> cheapest = SolveFolded(problem);
    ASSERT_TRUE(cheapest.has_value());
    double most = Evaluate(problem, cheapest->choice).bytes;
    double least = Evaluate(problem, SolveFolded(problem, {0, 0, 1})->choice).bytes;
    double before = kForbidden;
    for (double part : {0.5, 0.6, 0.7, 0.8, 0.9}) {
      double limit = part * most;
      auto start = std::chrono::steady_clock::now();
      LimitedSolution got = SolveLimited(problem, {.limit = limit, .gap = 1e-3, .max_nodes = 1});
      double seconds = Elapsed(start);
      ASSERT_EQ(got.best.has_value(), limit >= least);
      EXPECT_TRUE(got.proven);
      if (!got.best) continue;
      ++fit;
      EXPECT_LE(Evaluate(problem, got.best->choice).bytes, limit);
      EXPECT_LE(got.gap(), 1e-3 * (1 + 1e-6));
      EXPECT_GE(got.best->objective, cheapest->objective);
      EXPECT_LE(got.lower_bound, before);  // more memory is never worse
      before = got.best->objective;
      fmt::print(
          "{} devices, {:.1f} of the bytes: {:.6f} s (without limit {:.6f}), gap {:.4f} %, {} "
          "solves, "
          "{:.4f} s\n",
          mesh.size(), part, got.best->objective, cheapest->objective, 100 * got.gap(), got.solves,
          seconds);
    }
  }
  EXPECT_GE(fit, 6);
}

// With tensor parallelism only and little memory, strategies that are solved for the memory of a device are faster than
// those found by memory multipliers.
TEST(LimitedSearch, PlansMadeToFitWin) {
  Model model =
      Analyse(BuildModel("gpt:layers=32,hidden=2560,heads=32,seq=2048,vocab=50304,batch=64"));
  Cluster cluster = LoadCluster("dgx-h100:1");
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed.tp = 8;
  problem.fixed.recompute = RecomputePolicy::kNone;
  problem.fixed.offload = Offload::kNone;  // offload would make plans fit, too
  int won = 0;
  for (int64_t gib : {12, 16, 20}) {
    problem.memory_limit = gib << 30;
    SearchResult result = Search(*FindSearcher("auto"), problem);
    ASSERT_TRUE(result.feasible());
    const JudgedPlan& best = result.judged[0];
    double other = 0;  // step of the best plan that was not made to fit
    for (const JudgedPlan& judged : result.judged) {
      bool made = judged.from.find("made to fit") != std::string::npos;
      if (judged.fits && !made && other == 0) other = judged.result.step_seconds;
    }
    fmt::print("{} GiB: {} {:.4f} s; not made to fit {:.4f} s\n", gib, best.from,
               best.result.step_seconds, other);
    won += best.from.find("made to fit") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(won, 3);
}

// Offload is used only if memory is short.
TEST(OffloadSearch, WhereNothingElseFits) {
  Model model =
      Analyse(BuildModel("gpt:layers=32,hidden=4096,heads=32,seq=2048,vocab=50304,batch=16"));
  Cluster cluster = LoadCluster("dgx-h100:1");
  SearchProblem problem{.model = model, .cluster = cluster};
  auto search = [&](int64_t gib, std::optional<Offload> fixed) {
    problem.memory_limit = gib << 30;
    problem.fixed.offload = fixed;
    return Search(*FindSearcher("auto"), problem);
  };
  SearchResult unlimited = search(80, {}), without = search(80, Offload::kNone);
  ASSERT_TRUE(unlimited.feasible());
  EXPECT_EQ(unlimited.judged[0].plan, without.judged[0].plan);
  EXPECT_EQ(unlimited.judged[0].host_bytes, 0);

  EXPECT_FALSE(search(12, Offload::kNone).feasible());
  SearchResult tight = search(12, {});
  ASSERT_TRUE(tight.feasible());
  const JudgedPlan& best = tight.judged[0];
  EXPECT_EQ(best.plan.offload, Offload::kOptimizer);
  EXPECT_LE(best.reserved(), tight.memory_limit);
  EXPECT_GT(best.result.step_seconds, unlimited.judged[0].result.step_seconds);
  EXPECT_LE(tight.proposals.lower_bound, best.result.step_seconds);
  // One machine has two moments and a master weight of 4 bytes each for all parameters.
  double parameters = 0;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    double elements = 1;
    for (int64_t n : model.graph.value(id).type.shape) elements *= static_cast<double>(n);
    parameters += elements;
  }
  EXPECT_NEAR(static_cast<double>(best.host_bytes), 12 * parameters, 0.01 * 12 * parameters);

  // A host with too little memory for it is not used.
  for (Group& group : cluster.groups) {
    if (group.host_memory != Bytes{0}) group.host_memory = Bytes{int64_t{1} << 30};
  }
  EXPECT_FALSE(search(12, {}).feasible());
}

// Devices that are CPU cores share the machine's memory with the host: the host has only what devices may not use.
TEST(OffloadSearch, AMachineHasItsMemoryOnce) {
  Model model = Analyse(BuildModel("gpt:layers=2,hidden=64,heads=4,seq=32,vocab=64,batch=8"));
  Cluster cluster = LoadCluster("local:2");
  SearchProblem problem{.model = model, .cluster = cluster};
  int64_t has = cluster.group(NodeOf(cluster, DeviceId{0}).group).host_memory.value;
  EXPECT_EQ(*HostLimit(problem), 0);
  problem.memory_limit = int64_t{1} << 30;
  EXPECT_EQ(*HostLimit(problem), has - (int64_t{2} << 30));
  Cluster gpus = LoadCluster("dgx-h100:1");
  SearchProblem apart{.model = model, .cluster = gpus};
  EXPECT_EQ(*HostLimit(apart), int64_t{2} << 40);
}

TEST(OffloadSearch, KeepsToWhatIsFixed) {
  Model model = Analyse(BuildModel("gpt:layers=4,hidden=256,heads=4,seq=128,vocab=512,batch=8"));
  Cluster cluster = LoadCluster("dgx-h100:1");
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed.offload = Offload::kOptimizer;
  for (const SearcherDef& searcher : AllSearchers()) {
    if (searcher.name == "ilp" || searcher.name == "brute") continue;  // same as auto
    for (const JudgedPlan& judged : Search(searcher, problem).judged) {
      EXPECT_EQ(judged.plan.offload, Offload::kOptimizer) << searcher.name << " " << judged.from;
    }
  }
  Cluster local = LoadCluster("local:2");
  local.device_types[0].host = {};
  SearchProblem nowhere{.model = model, .cluster = local};
  nowhere.fixed.offload = Offload::kOptimizer;
  EXPECT_THROW(Search(*FindSearcher("auto"), nowhere), InputError);
}

struct SpilledCase {
  int recomputed = 0, kept = 0;  // numbers of blocks; kept: among those before the last shard
  double step = 0, step_recomputed = 0;
};

// The plan of the search, and the same plan with all blocks before the last shard recomputed. nullopt if none fits.
std::optional<SpilledCase> FindSpilled(const Model& model, int64_t memory) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed.offload = Offload::kAll;
  problem.fixed.dp = 1;
  problem.memory_limit = memory;
  SearchResult result = Search(*FindSearcher("auto"), problem);
  if (!result.feasible()) return std::nullopt;
  EXPECT_LE(result.judged[0].reserved(), result.memory_limit);
  EXPECT_EQ(result.judged[0].plan, Search(*FindSearcher("auto"), problem).judged[0].plan);
  SpilledCase out;
  out.step = result.judged[0].result.step_seconds;
  Plan plan = result.judged[0].plan;
  Stage& stage = plan.stages[0];
  for (int b = 0; b < stage.last_block && ShardOf(stage, b) + 1 < ShardCount(stage); ++b) {
    RecomputePolicy& policy = stage.recompute[static_cast<size_t>(b)];
    ++(policy == RecomputePolicy::kFull ? out.recomputed : out.kept);
    policy = RecomputePolicy::kFull;
  }
  out.step_recomputed = Judge(problem, {plan, "recomputed"}).result.step_seconds;
  fmt::print("{} MiB: {} shards, {} blocks recomputed: {:.4f} s; with {} more {:.4f} s\n",
             memory >> 20, ShardCount(stage), out.recomputed, out.step, out.kept,
             out.step_recomputed);
  EXPECT_LE(out.step, out.step_recomputed);
  return out;
}

// If optimizer state must be offloaded, weights are offloaded, too, if that is faster, but not if it needs more
// micro-batches.
TEST(OffloadSearch, AllOfItGoesWhereThatIsFaster) {
  const std::string gpt = "gpt:layers=24,hidden=1600,heads=25,seq=1024,vocab=50257,batch=";
  Cluster h100 = Select(LoadCluster("dgx-h100:1"), {0});
  Cluster card = LoadCluster(HEDDLE_TEST_DATA "/../../bench/card_24gb.yaml");
  auto expect = [&](const Cluster& cluster, int batch, bool faster) {
    Model model = Analyse(BuildModel(gpt + std::to_string(batch)));
    auto step = [&](std::optional<Offload> offload) {
      SearchProblem problem{.model = model, .cluster = cluster};
      problem.memory_limit = int64_t{12} << 30;
      problem.fixed.offload = offload;
      SearchResult result = Search(*FindSearcher("auto"), problem);
      return result.feasible() ? result.judged[0].result.step_seconds : kForbidden;
    };
    EXPECT_EQ(step(Offload::kNone), kForbidden);
    double state = step(Offload::kOptimizer), all = step(Offload::kAll);
    double free = step(std::nullopt);
    fmt::print(
        "{}, batch {}: state on the host {:.4f} s, all of it {:.4f} s, as it likes {:.4f} s\n",
        cluster.name, batch, state, all, free);
    EXPECT_EQ(free, std::min(state, all));
    EXPECT_EQ(all < state, faster);
  };
  expect(h100, 8, true);
  expect(card, 8, true);
  expect(h100, 32, false);
}

// Batches that are too large are divided into the smallest number of micro-batches that fits.
TEST(OffloadSearch, SpilledPlansTakeMicrobatches) {
  Model model =
      Analyse(BuildModel("gpt:layers=24,hidden=1600,heads=25,seq=1024,vocab=50257,batch=32"));
  Cluster cluster = Select(LoadCluster("dgx-h100:1"), {0});
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.memory_limit = int64_t{14} << 30;
  problem.fixed.offload = Offload::kAll;
  SearchResult found = Search(*FindSearcher("auto"), problem);
  ASSERT_TRUE(found.feasible());
  int64_t fewest = found.judged[0].plan.microbatches;
  EXPECT_GT(fewest, 1);
  for (int64_t fewer = 1; fewer < fewest; fewer *= 2) {
    problem.fixed.microbatches = fewer;
    EXPECT_FALSE(Search(*FindSearcher("auto"), problem).feasible()) << fewer;
  }
}

// Blocks before the last shard keep their activations if they fit and if that is faster.
TEST(OffloadSearch, SpilledPlansKeepWhatFits) {
  Model model =
      Analyse(BuildModel("gpt:layers=24,hidden=1024,heads=16,seq=1024,vocab=50257,batch=8"));
  std::vector<SpilledCase> found;
  for (int64_t gib : {1, 7, 12, 24}) {
    std::optional<SpilledCase> at = FindSpilled(model, gib << 30);
    EXPECT_EQ(at.has_value(), gib > 1);
    if (at) found.push_back(*at);
  }
  ASSERT_EQ(found.size(), 3u);
  EXPECT_GT(found[0].recomputed, found[1].recomputed);
  EXPECT_EQ(found[2].recomputed, 0);
  EXPECT_LT(found[2].step, found[2].step_recomputed);

  Model copies =
      Analyse(BuildModel("gpt:layers=12,hidden=5120,heads=40,seq=128,vocab=512,batch=8"));
  std::optional<SpilledCase> bound = FindSpilled(copies, int64_t{14} << 30);
  ASSERT_TRUE(bound.has_value());
  EXPECT_NEAR(bound->step, bound->step_recomputed,
              0.005 * bound->step);  // copies take the whole step
}

}  // namespace
}  // namespace heddle
