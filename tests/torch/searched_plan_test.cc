// What the search finds, the runtime runs: the loss curve and the gradients of one device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../known_models.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/plan_file.h"
#include "plan/verify.h"
#include "plan_harness.h"
#include "runtime/data/batch.h"
#include "search/searcher.h"

namespace heddle {
namespace {

// The best plan on 2 to 8 ranks, free and with some degrees fixed, so that plans of every kind are among them: pipelines,
// tensor axes, recomputation for want of memory.
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
