// Real runs of many jobs on few devices: the losses of every job are those of the job alone, and no device exceeds its
// cap.
#include <gtest/gtest.h>

#include <algorithm>

#include "../known_models.h"
#include "cluster/load.h"
#include "fleet/dispatch.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "runtime/data/data_source.h"
#include "runtime/shard_job.h"
#include "runtime/transport/threads.h"
#include "search/spilling/shards.h"

namespace heddle {
namespace {

struct FleetJob {
  std::string name;
  const Model* model = nullptr;
  TrainOptions options;
  std::unique_ptr<DataSource> data;
  Program program, alone;
  std::unique_ptr<ShardRunner> runner;
};

Json NoRun() { return Json::object(); }

// 0: shards before the last recompute; 1: all blocks keep activations on the host; 2: every other block does.
class FleetOfTinyModels : public testing::TestWithParam<int> {
 protected:
  static constexpr int kSteps = 6;

  void SetUp() override {
    MeterAllocations();
    for (const char* name :
         {"tiny-mlp", "tiny-cnn", "tiny-gpt2", "tiny-llama", "tiny-moe", "tiny-t5"}) {
      for (const KnownModel& known : KnownModels()) {
        if (known.name != name) continue;
        models_.push_back(std::make_unique<Model>(Analyse(LoadModel(known.path, {}))));
        names_.push_back(known.name);
      }
    }
    int keeping = 0;
    for (const auto& model : models_) {
      ModelCosts costs = FindModelCosts(*model, cluster_, {.local_batch_statistics = false});
      if (GetParam() > 0) costs = KeepOnHost(std::move(costs), 1, 1e30);
      keeping += std::count(costs.keeps.begin(), costs.keeps.end(), true) > 1 ? 1 : 0;
      for (size_t u = 1; GetParam() == 2 && u < costs.keeps.size(); u += 2) costs.keeps[u] = false;
      costs_.push_back(std::move(costs));
    }
    // Other models have no repeated blocks, so nothing is recomputed.
    EXPECT_EQ(keeping, GetParam() == 0 ? 0 : 4);
  }

  // The plan of a job in shards, or of the same job without shards.
  Plan PlanOf(size_t m, const std::vector<int>& ends) const {
    const Model& model = *models_[m];
    Plan plan = ExpertPlan(model, cluster_, {});
    plan.offload = Offload::kAll;
    plan.prefetch = 0;  // the fleet chooses the next shard
    Stage& stage = plan.stages[0];
    for (size_t e = 0; e + 1 < ends.size(); ++e)
      stage.shard_starts.push_back(costs_[m].block_ends[static_cast<size_t>(ends[e] - 1)]);
    for (size_t b = 0, unit = 0; b < stage.recompute.size(); ++b) {
      if (static_cast<int>(b) == costs_[m].block_ends[unit]) ++unit;
      bool last = ShardOf(stage, static_cast<int>(b)) + 1 == ShardCount(stage);
      stage.recompute[b] =
          last || costs_[m].keeps[unit] ? RecomputePolicy::kNone : RecomputePolicy::kFull;
    }
    RequireSound(plan, model, "the plan of a job");
    return plan;
  }

  std::vector<FleetJob> Jobs(const FleetShards& shards, std::vector<FleetDevice>& fleet_devices) {
    std::vector<FleetJob> jobs;
    for (size_t m = 0; m < models_.size(); ++m) {
      for (double lr : {1e-2, 1e-3}) {
        FleetJob job;
        job.name = names_[m] + " " + std::to_string(lr);
        job.model = models_[m].get();
        job.options.steps = kSteps;
        job.options.seed = 7;
        job.options.optimizer.lr = job.options.lr.lr = lr;
        job.data = OpenData(job.model->graph, {.seed = 7});
        job.program = Lower(*job.model, PlanOf(m, shards.ends[m]));
        EXPECT_EQ(Verify(job.program), std::vector<std::string>{});
        job.alone = Lower(*job.model, ExpertPlan(*job.model, cluster_, {}));
        jobs.push_back(std::move(job));
      }
    }
    for (FleetJob& job : jobs) {
      job.runner = MakeShardJob(InputsOf(job, job.program), job.options, fleet_devices);
    }
    return jobs;
  }

  TrainInputs InputsOf(const FleetJob& job, const Program& program) const {
    return {program, MakeWeights(job.model->graph, job.model->rules, {.seed = 7}),
            MakeConstants(job.model->graph, {}), *job.data, NoRun()};
  }

  std::vector<double> AloneLosses(const FleetJob& job) const {
    std::vector<double> losses;
    RunRanks(1, [&](Transport& transport) {
      TrainDevice(InputsOf(job, job.alone), job.options, transport,
                  [&](const StepRecord& record) { losses.push_back(record.loss); });
    });
    return losses;
  }

  int64_t WholeBytes(size_t m) const {
    return CostOfShard(costs_[m], 0, static_cast<int>(costs_[m].block_ends.size())).peak();
  }

  Cluster cluster_ = LoadCluster("local:1");
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<ModelCosts> costs_;
};

TEST_P(FleetOfTinyModels, LossesAreThoseOfEachJobAlone) {
  std::vector<const ModelCosts*> all;
  int64_t smallest = INT64_MAX;
  for (size_t m = 0; m < costs_.size(); ++m) {
    all.push_back(&costs_[m]);
    smallest = std::min(smallest, WholeBytes(m));
  }
  // The smallest memory for which shards fit.
  int64_t cap = smallest;
  while (CutFleet(all, cap * 15 / 16).feasible) cap = cap * 15 / 16;
  while (!CutFleet(all, cap).feasible) cap = cap * 17 / 16;
  FleetShards shards = CutFleet(all, cap);
  ASSERT_TRUE(shards.feasible);
  for (size_t m = 0; m < costs_.size(); ++m) {
    RecordProperty(names_[m] + "_shards", static_cast<int>(shards.ends[m].size()));
    std::printf("%-12s %3zu shards, whole %8.1f KiB\n", names_[m].c_str(), shards.ends[m].size(),
                static_cast<double>(WholeBytes(m)) / 1024);
  }
  std::vector<FleetDevice> fleet_devices;
  for (int d = 0; d < 2; ++d) fleet_devices.push_back(MakeFleetDevice(at::kCPU));
  std::vector<FleetJob> jobs = Jobs(shards, fleet_devices);
  for (bool buffering : {true, false}) {
    if (!buffering) jobs = Jobs(shards, fleet_devices);
    std::vector<DispatchJob> dispatched;
    for (FleetJob& job : jobs) dispatched.push_back({job.runner.get(), kSteps, 0, {}});
    FleetRun run =
        Dispatch(dispatched, {.devices = 2, .double_buffering = buffering}, *FindPolicy("lrtf"));
    for (size_t j = 0; j < jobs.size(); ++j) {
      SCOPED_TRACE(jobs[j].name);
      EXPECT_EQ(run.jobs[j].error, "");
      std::vector<double> expected = AloneLosses(jobs[j]);
      ASSERT_EQ(run.jobs[j].records.size(), expected.size());
      for (size_t s = 0; s < expected.size(); ++s) {
        EXPECT_NEAR(run.jobs[j].records[s].loss, expected[s], 1e-6 * std::abs(expected[s]));
      }
    }
    for (FleetDevice& fleet_device : fleet_devices) {
      std::printf("cap %.1f KiB, held at most %.1f KiB; utilisation %.2f\n",
                  static_cast<double>(cap) / 1024,
                  static_cast<double>(fleet_device.meter.peak()) / 1024, run.utilisation());
      EXPECT_LE(fleet_device.meter.peak(), cap);
      EXPECT_LE(fleet_device.meter.bytes(), 1024);  // only some scalars of each job are left
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Keeping, FleetOfTinyModels, testing::Values(0, 1, 2));

}  // namespace
}  // namespace heddle
