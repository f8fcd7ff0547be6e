// A shortened model has the same optimum as the whole model, and its strategies cost the same there.
#include "search/prices/short_model.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "search/prices/prices.h"
#include "search/solver/eliminate.h"

namespace heddle {
namespace {

struct Shortened {
  std::string model;
  bool shorter = true;
};
void PrintTo(const Shortened& at, std::ostream* out) { *out << at.model; }

class ShortModels : public testing::TestWithParam<Shortened> {};

TEST_P(ShortModels, HaveTheOptimumOfTheWhole) {
  Model model = Analyse(BuildModel(GetParam().model));
  Cluster cluster = LoadCluster("dgx-h100:1");
  EXPECT_EQ(Shorten(model).model.graph.nodes.size() < model.graph.nodes.size(), GetParam().shorter);
  ProblemSolver solver = [](const Problem& problem, const Weights& weights) {
    return SolveFolded(problem, weights);
  };
  Prices small(model, cluster, {{}, {}, {}, nullptr}), whole(model, cluster, {{}, {}, {}, solver});
  int64_t batch = BatchSize(model);
  std::vector<PriceKey> keys = {
      {.axes = {2}, .samples = batch},
      {.axes = {8}, .samples = batch / 2, .microbatches = 2},
      // Alternating strategies: the last copy follows one that is left out.
      {.axes = {4},
       .samples = batch / 2,
       .microbatches = 2,
       .recompute = RecomputePolicy::kFull,
       .per_byte = 1e-13,
       .per_parameter = 1e-11}};
  for (const PriceKey& key : keys) {
    SCOPED_TRACE(key.axes[0]);
    const Priced *got = small.Of(key), *want = whole.Of(key);
    ASSERT_TRUE(got != nullptr && want != nullptr);
    EXPECT_NEAR(got->solution.objective, want->solution.objective,
                1e-12 * want->solution.objective);
    ASSERT_EQ(got->blocks.size(), model.blocks.size());
    ASSERT_EQ(want->blocks.size(), model.blocks.size());
    // The strategies of the shortened model, on the whole model.
    CostOptions options;
    options.parts = batch / key.samples;
    // If nothing happens once per step, micro-batches do not matter (prices.cc).
    options.microbatches = key.microbatches;
    options.tied_alike = true;
    StageCosts costs(model, cluster, got->mesh, options);
    StageProblem stage =
        MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()), key.recompute);
    std::optional<std::vector<int>> fixed = ChoicesOf(costs, stage, small.StrategiesOf(*got));
    ASSERT_TRUE(fixed.has_value());
    StageScale scale;
    scale.microbatches = options.microbatches;
    if (key.per_byte > 0) scale.bytes_per_parameter = key.per_parameter / key.per_byte;
    Problem weighed = Restrict(Weighed(stage, scale), *fixed);
    std::optional<Solution> same = SolveWhole(weighed, {1, 1, key.per_byte});
    ASSERT_TRUE(same.has_value());
    EXPECT_NEAR(same->objective, want->solution.objective, 1e-11 * want->solution.objective);
    // The lower bounds of both.
    const LeastTime *time = small.LeastTimeOf(key), *least = whole.LeastTimeOf(key);
    ASSERT_TRUE(time != nullptr && least != nullptr);
    EXPECT_NEAR(time->whole, least->whole, 1e-11 * least->whole);
    EXPECT_NEAR(time->forward.total(), least->forward.total(), 1e-11 * least->forward.total());
    int units = least->ranges.units();
    ASSERT_EQ(time->ranges.units(), units);
    for (int first = 0; first < units; ++first) {
      for (int last = first + 1; last <= units; ++last) {
        double of = least->ranges.Of(first, last);
        EXPECT_NEAR(time->ranges.Of(first, last), of, 1e-11 * of) << first << " to " << last;
        EXPECT_LE(of, least->whole * (1 + 1e-9));
      }
    }
    std::vector<RecomputePolicy> policies = {key.recompute};
    const LeastMemory *room = small.LeastMemoryOf(key, policies),
                      *least_memory = whole.LeastMemoryOf(key, policies);
    EXPECT_NEAR(room->least.total(), least_memory->least.total(),
                1e-11 * least_memory->least.total());
    EXPECT_NEAR(time->parameters.total(), least->parameters.total(),
                1e-11 * least->parameters.total());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ShortModels,
    testing::Values(
        Shortened{"gpt:layers=24,hidden=512,heads=8,seq=128,vocab=4096,batch=8"},
        Shortened{"gpt:layers=5,hidden=512,heads=8,seq=128,vocab=4096,batch=8", false},
        Shortened{"gpt:layers=6,hidden=512,heads=8,seq=128,vocab=4096,batch=8"},
        Shortened{"llama:layers=12,hidden=512,heads=8,kv_heads=4,seq=128,vocab=4096,batch=8"},
        Shortened{"moe:layers=8,hidden=256,heads=8,experts=8,seq=128,vocab=4096,batch=8"},
        Shortened{"t5:layers=8,hidden=256,heads=8,seq=64,vocab=4096,batch=8"},
        Shortened{"vit:layers=12,hidden=256,heads=8,batch=8"},
        Shortened{"bert:layers=12,hidden=256,heads=8,seq=64,vocab=4096,batch=8"}),
    [](const auto& info) {
      return info.param.model.substr(0, info.param.model.find(':')) + std::to_string(info.index);
    });

}  // namespace
}  // namespace heddle
