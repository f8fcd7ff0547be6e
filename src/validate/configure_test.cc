#include "validate/configure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "cluster/topology.h"
#include "frontend/load.h"
#include "ops/analysis.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "validate/testing.h"

namespace heddle {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int64_t> LayersPerStage(const RunSetup& setup) {
  std::vector<int64_t> layers;
  for (const Stage& stage : setup.plan.stages) {
    layers.push_back(0);
    for (int b = stage.first_block; b < stage.last_block; ++b)
      layers.back() += setup.model.blocks[static_cast<size_t>(b)].chain >= 0 ? 1 : 0;
  }
  return layers;
}

double ParametersOf(const Model& model) {
  double count = 0;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    double size = 1;
    for (int64_t dim : model.graph.value(id).type.shape) size *= static_cast<double>(dim);
    count += size;
  }
  return count;
}

// Tests every third run; the slow tests lower all of them.
TEST(ConfigureTest, CompleteRunsHaveASoundPlan) {
  size_t planned = 0;
  const std::vector<PublishedRun>& runs = BundledRuns();
  for (size_t r = 0; r < runs.size(); r += 3) {
    const PublishedRun& run = runs[r];
    SCOPED_TRACE(run.id);
    RunSetup setup = Configure(run);
    if (!IsComplete(run)) {
      EXPECT_THAT(setup.reason, HasSubstr("not published: "));
      continue;
    }
    EXPECT_EQ(setup.reason, "");
    if (!setup.reason.empty()) continue;
    ++planned;
    EXPECT_NE(setup.stack, "unknown");
    EXPECT_THAT(Verify(setup.plan, setup.model), IsEmpty());
    EXPECT_EQ(DeviceCount(setup.plan), run.hardware.gpus);
    EXPECT_EQ(DeviceCount(setup.plan.cluster), run.hardware.gpus);
    EXPECT_EQ(setup.plan.batch, *run.batch.global_batch);
    double microbatches = run.batch.microbatches_per_pipeline.value_or(0);
    if (microbatches == std::floor(microbatches)) {
      EXPECT_EQ(static_cast<double>(setup.plan.microbatches), microbatches);
    }
    EXPECT_EQ(LayersOf(setup.model), run.model.layers);
    ASSERT_TRUE(run.model.params_billion);
    EXPECT_NEAR(ParametersOf(setup.model) / (*run.model.params_billion * 1e9), 1, 0.04);
  }
  EXPECT_GE(planned, 55u);
}

// The model source in a plan file gives the same model.
TEST(ConfigureTest, TheSourceIsTheModel) {
  std::set<std::string> sources;
  for (const PublishedRun& run : BundledRuns()) {
    if (!IsComplete(run) || !sources.insert(run.source_id).second) continue;
    RunSetup setup = Configure(run);
    EXPECT_EQ(StableHash(LoadModel(setup.plan.model.source)), setup.plan.model.hash) << run.id;
  }
}

// Tests one run of every source; the slow tests lower all of them.
TEST(ConfigureTest, SmallRunsLowerToSoundPrograms) {
  std::set<std::string> sources;
  for (const PublishedRun& run : BundledRuns()) {
    if (!IsComplete(run) || run.hardware.gpus > 64 || !sources.insert(run.source_id).second)
      continue;
    SCOPED_TRACE(run.id);
    RunSetup setup = Configure(run);
    ASSERT_EQ(setup.reason, "");
    EXPECT_THAT(Verify(Lower(setup.model, setup.plan)), IsEmpty());
  }
}

TEST(ConfigureTest, MegatronInterleaved) {
  RunSetup setup = Configure(RunNamed("megatron-sc21-t1-145.6b"));
  EXPECT_EQ(setup.stack, "megatron 2021");
  EXPECT_EQ(setup.plan.model.source,
            "gpt:layers=80,hidden=12288,heads=96,ffn=49152,vocab=51200,seq=2048,batch=2304,"
            "position=learned,attention=unfused,dropout=0.1,attention_dropout=0.1,mlp=gelu,tied=1");
  EXPECT_EQ(setup.plan.schedule, "interleaved");
  EXPECT_EQ(setup.plan.chunks, 2);
  EXPECT_EQ(LayersPerStage(setup), std::vector<int64_t>(16, 5));
  EXPECT_EQ(setup.plan.precision,
            (Precision{DType::kF16, DType::kF16, DType::kF32, DType::kF32, Products::kAsCompute}));
  EXPECT_EQ(setup.plan.zero.level, 0);
  EXPECT_EQ(setup.plan.bucket_bytes, kAllGradients);
  EXPECT_EQ(setup.plan.stages[0].recompute[0], RecomputePolicy::kFull);
  EXPECT_THAT(setup.remarks, IsEmpty());
  const Cluster& cluster = setup.plan.cluster;
  EXPECT_EQ(cluster.name, "1536 x a100-sxm-80gb");
  EXPECT_EQ(cluster.groups[0].link.bandwidth, 300e9);
  EXPECT_EQ(cluster.groups[0].uplink.bandwidth, 200e9);
  EXPECT_EQ(cluster.groups[1].link.bandwidth, 25e9);
}

TEST(ConfigureTest, EmbeddingAndHeadCountAsLayers) {
  RunSetup bloom = Configure(RunNamed("bloom-176b-production"));
  EXPECT_EQ(LayersPerStage(bloom), (std::vector<int64_t>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
  EXPECT_EQ(bloom.plan.precision.compute, DType::kBF16);
  EXPECT_EQ(bloom.plan.precision.gradients, DType::kF32);
  EXPECT_EQ(bloom.plan.zero.level, 1);
  RunSetup interleaved = Configure(RunNamed("zerobubble-1.5b-1f1b-i-m24"));
  std::vector<int64_t> expected(24, 1);
  expected.front() = expected.back() = 0;
  EXPECT_EQ(LayersPerStage(interleaved), expected);
}

TEST(ConfigureTest, Schedules) {
  EXPECT_EQ(Configure(RunNamed("zerobubble-1.5b-zb-1p-m24")).plan.schedule, "zb-h1");
  EXPECT_EQ(Configure(RunNamed("zerobubble-1.5b-zb-2p-m24")).plan.schedule, "zb");
  EXPECT_EQ(Configure(RunNamed("zerobubble-1.5b-1f1b-m24")).plan.schedule, "1f1b");
  RunSetup unstated = Configure(RunNamed("megatron-sc21-t2-ptdp-174.6b-384gpu"));
  EXPECT_EQ(unstated.plan.schedule, "1f1b");
  EXPECT_THAT(unstated.remarks,
              ElementsAre("the number of virtual stages is not published: 1 is assumed"));
}

TEST(ConfigureTest, ShardingAndPrecision) {
  RunSetup hybrid = Configure(RunNamed("ibm-fms-fsdp-llama2-7b-a100-128"));
  EXPECT_EQ(hybrid.plan.zero, (Zero{3, {"shard"}}));
  EXPECT_EQ(hybrid.plan.stages[0].mesh.axes, (std::vector<MeshAxis>{{"dp", 16}, {"shard", 8}}));
  EXPECT_EQ(hybrid.plan.precision.gradients, DType::kBF16);
  RunSetup context = Configure(RunNamed("torchtitan-8b-8gpu-cp2-s65536"));
  EXPECT_EQ(context.plan.zero, (Zero{3, {"dp", "cp"}}));
  EXPECT_EQ(context.plan.precision.products, Products::kFp8);
  EXPECT_EQ(context.plan.cluster.device_types[0].name, "h100-96gb-hbm2e");
  EXPECT_EQ(Configure(RunNamed("mpt-3b-h100_80gb-128gpu-s2048-b1024-amp_bf16")).plan.zero.level, 2);
  EXPECT_EQ(Configure(RunNamed("mpt-125m-a100_40gb-8gpu-s2048-b624-bf16")).plan.precision.gradients,
            DType::kBF16);
  EXPECT_EQ(Configure(RunNamed("nemo-launcher-h100-fp8-gpt3-5b")).plan.zero.level, 1);
}

TEST(ConfigureTest, Recomputation) {
  RunSetup selective = Configure(RunNamed("korthikanti-22b-selective"));
  EXPECT_EQ(selective.plan.stages[0].recompute[0], RecomputePolicy::kSelective);
  RunSetup second = Configure(RunNamed("torchtitan-8b-8gpu-eager"));
  std::map<RecomputePolicy, int> layers;
  for (size_t b = 0; b < second.model.blocks.size(); ++b) {
    if (second.model.blocks[b].chain >= 0) ++layers[second.plan.stages[0].recompute[b]];
  }
  EXPECT_EQ(layers, (std::map<RecomputePolicy, int>{{RecomputePolicy::kNone, 10},
                                                    {RecomputePolicy::kFull, 22}}));
  EXPECT_THAT(second.remarks, Contains(HasSubstr("two layers of three in full")));
}

TEST(ConfigureTest, StacksAreOfTheSourceAndWhatTheRunSays) {
  std::map<std::string, std::string> expected = {
      {"torchtitan-8b-8gpu-eager", "torchtitan eager"},
      {"torchtitan-8b-8gpu-compile", "torchtitan compile"},
      {"megatron-sc21-t2-zero3-174.6b-384gpu", "deepspeed zero3 2021"},
      {"megatron-sc21-t2-ptdp-174.6b-384gpu", "megatron 2021"},
      {"megatron2020-dgx2-1b", "megatron 2020"},
      {"gpt-neox-20b", "gpt-neox 2022"},
      {"alpa-gpt-2.6b-8xv100", "alpa"}};
  for (const auto& [id, stack] : expected) EXPECT_EQ(StackOf(RunNamed(id)).name, stack) << id;
}

TEST(ConfigureTest, Layouts) {
  EXPECT_THAT(LayerLayout(12, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(LayerLayout(10, 4), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(LayerLayout(11, 4), ElementsAre(3, 3, 3, 2));
  EXPECT_THAT(LayerLayout(13, 4), ElementsAre(3, 4, 3, 3));
  EXPECT_THAT(LayerLayout(6, 8), ElementsAre(0, 1, 1, 1, 1, 1, 1, 0));
}

// A run in a file of the user.
class OwnRun : public testing::Test {
 protected:
  OwnRun() : run_(RunNamed("alpa-gpt-2.6b-8xv100")) { SetLogLevel(LogLevel::kQuiet); }
  ~OwnRun() override { SetLogLevel(LogLevel::kInfo); }

  std::string Reason() const { return Configure(run_).reason; }
  std::vector<std::string> Remarks() const {
    RunSetup setup = Configure(run_);
    EXPECT_EQ(setup.reason, "");
    EXPECT_THAT(Verify(setup.plan, setup.model), IsEmpty());
    return setup.remarks;
  }

  PublishedRun run_;
};

TEST_F(OwnRun, HasAReasonWhereItIsNotKnown) {
  auto with = [&](auto change) {
    PublishedRun before = run_;
    change(run_);
    std::string reason = Reason();
    run_ = before;
    return reason;
  };
  EXPECT_EQ(with([](PublishedRun& r) { r.recompute.reset(); }), "not published: recompute");
  EXPECT_EQ(with([](PublishedRun& r) { r.hardware.gpus = 9; }),
            "gpus: 9: expected tp 2 x pp 2 x dp 2 x cp 1, which is 8");
  EXPECT_THAT(with([](PublishedRun& r) { r.hardware.device = "TPU"; }),
              HasSubstr("device: \"TPU\""));
  EXPECT_THAT(with([](PublishedRun& r) { r.precision = "int4"; }),
              HasSubstr("precision: \"int4\""));
  EXPECT_THAT(with([](PublishedRun& r) { r.sharding = "some"; }), HasSubstr("sharding: \"some\""));
  EXPECT_THAT(with([](PublishedRun& r) { r.recompute = "some"; }),
              HasSubstr("recompute: \"some\""));
  EXPECT_THAT(with([](PublishedRun& r) { r.schedule->kind = "random"; }),
              HasSubstr("schedule.kind: \"random\""));
  EXPECT_THAT(with([](PublishedRun& r) { r.model.mlp = "gelu_3mat"; }),
              HasSubstr("model.mlp: \"gelu_3mat\""));
  EXPECT_THAT(with([](PublishedRun& r) { r.model.position = "zigzag"; }),
              HasSubstr("model.position: \"zigzag\""));
  EXPECT_THAT(with([](PublishedRun& r) {
                r.schedule = PublishedSchedule{"interleaved", 90};
              }),
              HasSubstr("180 stages for 32 layers"));
  EXPECT_THAT(with([](PublishedRun& r) { r.hardware.interconnect.intra_rate = 1e14; }),
              HasSubstr("interconnect: "));
}

TEST_F(OwnRun, RemarksWhatIsNotQuiteAsPublished) {
  EXPECT_THAT(Remarks(), IsEmpty());
  run_.batch.global_batch = 30;
  EXPECT_THAT(Remarks(),
              ElementsAre("a batch of 30 is not a multiple of 4 x dp 2: it is planned as 32"));
  run_.batch.global_batch = 32;
  run_.hardware.gpus_per_node = 3;
  EXPECT_THAT(
      Remarks(),
      ElementsAre(
          "the rate between nodes is not published: 6.25 GB/s per device are assumed, as in a "
          "DGX-1",
          "the last node has only 2 of 3 devices"));
  run_.hardware.gpus_per_node = 8;
  run_.source_id = "mine";
  run_.model.sliding_window_attention = true;
  EXPECT_THAT(Remarks(), ElementsAre("the software of source \"mine\" is unknown",
                                     "sliding windows are planned as full attention"));
}

}  // namespace
}  // namespace heddle
