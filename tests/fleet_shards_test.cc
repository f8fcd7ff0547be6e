// Compares the estimated costs of shards with the visits of the program that runs them, whose memory the simulator
// replays instruction by instruction.
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/load.h"
#include "cluster/select.h"
#include "fleet/job_work.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "search/spilling/shards.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

struct CaseOfShards {
  const char* model;
  int shards;
};

class FleetShardsTest : public ::testing::TestWithParam<CaseOfShards> {};

// Uses the instruction list of a job in these shards, visit by visit.
TEST_P(FleetShardsTest, PeaksCoverThoseOfVisits) {
  Model model = Analyse(LoadModel(GetParam().model));
  Cluster cluster = LoadCluster("dgx-v100:1");
  ModelCosts costs = FindModelCosts(model, cluster, {});
  Plan plan = ExpertPlan(model, cluster, {.local_batch_statistics = true});
  plan.offload = Offload::kAll;
  plan.prefetch = 0;
  Stage& stage = plan.stages.front();
  std::vector<int> begins = {0};
  for (int s = 1; s < GetParam().shards; ++s) {
    begins.push_back(costs.units * s / GetParam().shards);
    stage.shard_starts.push_back(costs.block_ends[static_cast<size_t>(begins.back()) - 1]);
  }
  for (int b = 0; b < stage.last_block; ++b) {
    bool last = ShardOf(stage, b) + 1 == ShardCount(stage);
    stage.recompute[static_cast<size_t>(b)] =
        last ? RecomputePolicy::kNone : RecomputePolicy::kFull;
  }
  std::vector<int64_t> peaks = ShardPeaks(Lower(model, plan));
  ASSERT_EQ(peaks.size(), begins.size());
  for (size_t s = 0; s < begins.size(); ++s) {
    int end = s + 1 < begins.size() ? begins[s + 1] : costs.units;
    int64_t priced = CostOfShard(costs, begins[s], end).peak();
    // The estimate does not include updates of whole shards, and counts shared values once for each unit.
    EXPECT_GE(static_cast<double>(priced), 0.9 * static_cast<double>(peaks[s]) - 32e6)
        << "shard " << s;
    EXPECT_LE(static_cast<double>(priced), 1.6 * static_cast<double>(peaks[s]) + 64e6)
        << "shard " << s;
  }
}

// One shard is the whole model on one device without recomputation.
TEST_P(FleetShardsTest, SecondsAddUpToThoseOfAStep) {
  Model model = Analyse(LoadModel(GetParam().model));
  Cluster one = Select(LoadCluster("dgx-v100:1"), {0});
  ModelCosts costs = FindModelCosts(model, one, {});
  Plan plan = ExpertPlan(model, one, {.local_batch_statistics = true});
  double step = Simulate(Lower(model, plan), one, {}).step_seconds;
  EXPECT_NEAR(StepSeconds(WorkOf(costs, {costs.units})) / step, 1, 0.02);
}

INSTANTIATE_TEST_SUITE_P(
    Models, FleetShardsTest,
    ::testing::Values(CaseOfShards{"gpt:layers=8,hidden=1024,heads=16,seq=256,vocab=8192,batch=8",
                                   3},
                      CaseOfShards{"vit:layers=8,hidden=768,heads=12,batch=32", 4},
                      CaseOfShards{"t5:batch=4", 3}, CaseOfShards{"resnet50:batch=32", 3}),
    [](const auto& at) {
      std::string name = at.param.model;
      return name.substr(0, name.find_first_of(":5"));
    });

}  // namespace
}  // namespace heddle
