// Plans with weights on the host, which visit the device shard by shard, give the losses of one device.
#include <gtest/gtest.h>

#include <algorithm>

#include "../known_models.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "plan_harness.h"
#include "program/lower.h"
#include "program/verify.h"
#include "runtime/data/batch.h"

namespace heddle {
namespace {

// Cuts every stage into `shards` shards as evenly as its blocks allow. The last shard keeps its activations, and so do
// the `kept` blocks of its stage before it.
void CutIntoShards(Plan& plan, int shards, bool recompute, int kept) {
  plan.offload = Offload::kAll;
  for (Stage& stage : plan.stages) {
    int blocks = stage.last_block - stage.first_block;
    stage.shard_starts.clear();
    for (int k = 1; k < shards; ++k) {
      int start = stage.first_block + blocks * k / shards;
      int before = stage.shard_starts.empty() ? stage.first_block : stage.shard_starts.back();
      if (start > before && start < stage.last_block) stage.shard_starts.push_back(start);
    }
    if (!recompute) continue;
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      int later = std::min(b + kept, stage.last_block - 1);
      bool last = &stage == &plan.stages.back() && ShardOf(stage, later) + 1 == ShardCount(stage);
      stage.recompute[static_cast<size_t>(b - stage.first_block)] =
          last ? RecomputePolicy::kNone : RecomputePolicy::kFull;
    }
  }
}

class SpilledPlans : public testing::TestWithParam<std::string> {};

TEST_P(SpilledPlans, GiveTheLossesOfOneDevice) {
  KnownModel known;
  for (const KnownModel& at : KnownModels()) {
    if (at.name == GetParam()) known = at;
  }
  Model model = Analyse(LoadModel(known.path, {}));
  Batch batch = ReadBatch(model.graph, known.reference);
  CurveOptions options;
  options.steps = 5;
  Curve expected = OneDevice(model.graph, batch, options);
  struct Case {
    Degrees degrees;
    int shards;
    bool recompute;
    int prefetch;
    int kept = 0;
  };
  for (const Case& at :
       {Case{{}, 1, false, 1}, Case{{}, 2, false, 0}, Case{{}, 3, true, 1}, Case{{}, 4, true, 0},
        Case{{}, 100, true, 2}, Case{{.dp = 2}, 3, true, 1}, Case{{.tp = 2}, 2, true, 1},
        Case{{.pp = 2}, 2, true, 1}, Case{{}, 4, true, 1, 1}, Case{{}, 100, true, 1, 3},
        Case{{.dp = 2, .microbatches = 2}, 4, true, 2, 2}, Case{{.pp = 2}, 3, true, 1, 2}}) {
    SCOPED_TRACE(testing::Message()
                 << known.name << " dp" << at.degrees.dp << " tp" << at.degrees.tp << " pp"
                 << at.degrees.pp << " shards " << at.shards << " recompute " << at.recompute
                 << " prefetch " << at.prefetch << " kept " << at.kept);
    Plan plan = ExpertPlan(model, LoadCluster("local:2"), at.degrees);
    CutIntoShards(plan, at.shards, at.recompute, at.kept);
    plan.prefetch = at.prefetch;
    ASSERT_EQ(Verify(plan, model), std::vector<std::string>{});
    ASSERT_EQ(Verify(Lower(model, plan)), std::vector<std::string>{});
    ExpectSame(OnThreads(model, plan, batch, options), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SpilledPlans,
                         testing::Values("tiny-mlp", "tiny-cnn", "tiny-gpt2", "tiny-llama",
                                         "tiny-moe", "tiny-t5"),
                         [](const auto& at) {
                           std::string name = at.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace heddle
