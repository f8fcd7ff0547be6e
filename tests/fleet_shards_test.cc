// Shards as the fleet prices them, beside the same shards as stages of a pipeline, whose memory the simulator goes
// through instruction by instruction.
#include <gtest/gtest.h>

#include "cluster/load.h"
#include "cluster/select.h"
#include "fleet/job_work.h"
#include "search/shards.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

struct CaseOfShards {
  const char* model;
  int shards;
};

class FleetShardsTest : public ::testing::TestWithParam<CaseOfShards> {};

// The shards of a model in the middle, and the last, which keeps everything.
TEST_P(FleetShardsTest, PeaksCoverThoseOfStages) {
  Model model = Analyse(LoadModel(GetParam().model));
  Cluster cluster = LoadCluster("dgx-v100:1");
  ModelCosts costs = FindModelCosts(model, cluster, {});
  std::vector<int> ends;
  for (int s = 1; s <= GetParam().shards; ++s) ends.push_back(costs.units * s / GetParam().shards);
  Plan plan = ExpertPlan(
      model, cluster,
      {.schedule = "gpipe", .recompute = RecomputePolicy::kFull, .local_batch_statistics = true});
  Stage whole = plan.stages.front();
  plan.stages.clear();
  int first = 0;
  for (int end : ends) {
    int block = costs.block_ends[static_cast<size_t>(end) - 1];
    Stage stage = whole;
    stage.first_block = first;
    stage.last_block = block;
    stage.mesh.first = static_cast<int64_t>(plan.stages.size());
    bool last = end == costs.units;
    stage.recompute.assign(static_cast<size_t>(block - first),
                           last ? RecomputePolicy::kNone : RecomputePolicy::kFull);
    plan.stages.push_back(stage);
    first = block;
  }
  Program program = Lower(model, plan);
  MemoryModel memory(program);
  int begin = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    int64_t peak = Replay(memory, static_cast<int64_t>(s)).peak;
    int64_t priced = CostOfShard(costs, begin, ends[s]).peak();
    EXPECT_GE(priced, peak) << "shard " << s;
    // Buckets of gradients of some 32 MiB may or may not be there yet, and what units share counts for each.
    EXPECT_LE(static_cast<double>(priced), 1.2 * static_cast<double>(peak) + 64e6) << "shard " << s;
    begin = ends[s];
  }
}

// One shard is the model on one device, with nothing recomputed.
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
