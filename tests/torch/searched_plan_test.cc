// Plans of the search run and give the loss curve and the gradients of one device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../known_models.h"
#include "cluster/load.h"
#include "cluster/yaml.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/plan_file.h"
#include "plan/verify.h"
#include "plan_harness.h"
#include "runtime/data/batch.h"
#include "search/replicas/with_factors.h"
#include "search/searcher.h"

namespace heddle {
namespace {

// The best plans on 2 to 8 ranks, with none or some of the degrees fixed, so that there are plans of every kind:
// pipelines, tensor axes, and recomputation because of little memory.
struct Wish {
  const char* cluster;
  FixedDegrees fixed = {};
};

std::vector<Wish> Wishes() {
  return {{"local:2"},
          {"local:4"},
          {"local:8"},
          {"local:4", {.pp = 2}},
          {"local:4", {.tp = 4}},
          {"local:8", {.tp = 2, .pp = 2}},
          {"local:6", {.recompute = RecomputePolicy::kFull}}};
}

class SearchedPlan : public testing::TestWithParam<std::string> {};

TEST_P(SearchedPlan, TrainsLikeOneDevice) {
  KnownModel known;
  for (const KnownModel& model : KnownModels()) {
    if (model.name == GetParam()) known = model;
  }
  Model model = Analyse(LoadModel(known.path, {}));
  Batch batch = ReadBatch(model.graph, known.reference);
  CurveOptions options;
  options.clip_norm = 1;
  Curve expected = OneDevice(model.graph, batch, options);
  std::set<std::string> trained;
  for (const Wish& wish : Wishes()) {
    Cluster cluster = LoadCluster(wish.cluster);
    SearchProblem problem{.model = model, .cluster = cluster, .fixed = wish.fixed};
    problem.precision = DType::kF32;
    SearchResult result = Search(*FindSearcher("auto"), problem);
    ASSERT_TRUE(result.feasible()) << wish.cluster;
    const JudgedPlan& best = result.judged.front();
    SCOPED_TRACE(fmt::format("{} on {}: {}", known.name, wish.cluster, best.from));
    EXPECT_THAT(Verify(best.plan, model), testing::IsEmpty());
    if (!trained.insert(ToJson(best.plan, model)).second) continue;
    ExpectSame(OnThreads(model, best.plan, batch, options), expected);
  }
  fmt::print("{}: {} plans found were trained\n", known.name, trained.size());
  EXPECT_GE(trained.size(), 4u);
}

// With links so slow that replicas compute gradients and nodes whole where possible.
TEST_P(SearchedPlan, TrainsLikeOneDeviceWithFactors) {
  KnownModel known;
  for (const KnownModel& model : KnownModels()) {
    if (model.name == GetParam()) known = model;
  }
  Model model = Analyse(LoadModel(known.path, {}));
  Batch batch = ReadBatch(model.graph, known.reference);
  Cluster cluster = ClusterFromYaml(
      "link: {name: slow, bandwidth: 10 MB/s, latency: 1 us}\n"
      "nodes:\n  - {name: one, count: 4, device: cpu-core, devices: 1}\n",
      "slow");
  Curve expected = OneDevice(model.graph, batch, {});
  int trained = 0;
  for (const Degrees& degrees : {Degrees{.dp = 2}, Degrees{.dp = 2, .pp = 2, .microbatches = 2}}) {
    Plan plan = ExpertPlan(model, cluster, degrees);
    for (Whole what : {Whole::kGradients, Whole::kNodes}) {
      std::optional<Factored> made = WithFactors(model, plan, {}, what);
      if (!made) continue;
      SCOPED_TRACE(
          fmt::format("pp {}: {} parameters, {} nodes", degrees.pp, made->parameters, made->nodes));
      EXPECT_THAT(Verify(made->plan, model), testing::IsEmpty());
      ExpectSame(OnThreads(model, made->plan, batch, {}), expected);
      ++trained;
    }
  }
  EXPECT_GE(trained, 2);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, SearchedPlan,
                         testing::Values("tiny-mlp", "tiny-cnn", "tiny-gpt2", "tiny-llama",
                                         "tiny-moe", "tiny-t5"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace heddle
