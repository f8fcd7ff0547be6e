// Every plan gives the loss curve and the gradients of one device.
#include <gtest/gtest.h>

#include "../known_models.h"
#include "cluster/load.h"
#include "cluster/yaml.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "plan_harness.h"
#include "program/lower.h"
#include "program/verify.h"
#include "runtime/accelerator.h"
#include "runtime/data/batch.h"

namespace heddle {
namespace {

struct Case {
  std::string model;
  Degrees degrees;
};

void PrintTo(const Case& c, std::ostream* out) {
  const Degrees& d = c.degrees;
  *out << c.model << " dp" << d.dp << " tp" << d.tp << " pp" << d.pp << " cp" << d.cp << " ep"
       << d.ep << " sp" << d.sp << " m" << d.microbatches << " chunks" << d.chunks << " "
       << d.schedule << " zero" << d.zero << " recompute" << static_cast<int>(d.recompute)
       << " offload" << static_cast<int>(d.offload) << " sync" << Name(d.sync);
}

struct Sample {
  std::string name;
  Model model;
  Batch batch;
};

Sample Known(const std::string& name) {
  for (const KnownModel& known : KnownModels()) {
    if (known.name != name) continue;
    Model model = Analyse(LoadModel(known.path, {}));
    Batch batch = ReadBatch(model.graph, known.reference);
    return {name, std::move(model), std::move(batch)};
  }
  ThrowInput("there is no model {}", name);
}

Sample BuiltIn(const std::string& expression) {
  Model model = Analyse(LoadModel(expression));
  Batch batch = SyntheticBatch(model.graph, 5);
  return {expression, std::move(model), std::move(batch)};
}

CurveOptions Clipped() {
  CurveOptions options;
  options.clip_norm = 1;
  return options;
}

// The expert's plans of these degrees give the curve and the gradients of one device.
void ExpectParity(const Sample& sample, const std::vector<Degrees>& plans,
                  const CurveOptions& options, double tolerance = 1e-4) {
  Curve expected = OneDevice(sample.model.graph, sample.batch, options);
  for (const Degrees& degrees : plans) {
    SCOPED_TRACE(testing::PrintToString(Case{sample.name, degrees}));
    Plan plan = ExpertPlan(sample.model, LoadCluster("local:8"), degrees);
    EXPECT_EQ(Verify(plan, sample.model), std::vector<std::string>{});
    ExpectSame(OnThreads(sample.model, plan, sample.batch, options), expected, tolerance);
  }
}

constexpr RecomputePolicy kFull = RecomputePolicy::kFull, kSelective = RecomputePolicy::kSelective;

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* model :
       {"tiny-mlp", "tiny-cnn", "tiny-gpt2", "tiny-llama", "tiny-moe", "tiny-t5"}) {
    cases.push_back({model, {}});
    cases.push_back({model, {.dp = 2}});
    cases.push_back({model, {.dp = 2, .zero = 1}});
    cases.push_back({model, {.dp = 2, .zero = 3}});
    cases.push_back({model, {.tp = 2}});
    cases.push_back({model, {.tp = 3}});
    cases.push_back({model, {.pp = 2}});
    cases.push_back({model, {.pp = 2, .microbatches = 4, .recompute = kFull}});
    cases.push_back({model, {.dp = 2, .tp = 2, .zero = 2}});
    cases.push_back({model, {.dp = 2, .tp = 2, .pp = 2, .microbatches = 2}});
  }
  for (const char* model : {"tiny-gpt2", "tiny-llama"}) {
    cases.push_back({model, {.tp = 2, .sp = true}});
    cases.push_back({model, {.cp = 2}});
    cases.push_back({model, {.dp = 2, .cp = 2, .zero = 2}});
    cases.push_back({model, {.tp = 2, .cp = 2}});
    cases.push_back({model, {.pp = 2, .microbatches = 2, .schedule = "gpipe"}});
    cases.push_back({model, {.pp = 2, .microbatches = 4, .schedule = "zb-h1"}});
    cases.push_back({model, {.pp = 2, .microbatches = 4, .schedule = "zb"}});
    cases.push_back({model, {.pp = 2, .microbatches = 2, .chunks = 2, .schedule = "interleaved"}});
    cases.push_back({model, {.pp = 3, .microbatches = 2}});
    cases.push_back({model, {.dp = 2, .microbatches = 2, .zero = 3, .recompute = kFull}});
    cases.push_back({model, {.tp = 2, .sp = true, .microbatches = 2, .recompute = kSelective}});
    cases.push_back({model,
                     {.dp = 2,
                      .tp = 2,
                      .pp = 2,
                      .sp = true,
                      .microbatches = 2,
                      .schedule = "zb-h1",
                      .zero = 1,
                      .recompute = kFull}});
    cases.push_back({model, {.dp = 3}});
    cases.push_back({model, {.dp = 2, .microbatches = 2, .zero = 2}});
  }
  cases.push_back({"tiny-moe", {.dp = 2, .ep = 2}});
  cases.push_back({"tiny-moe", {.dp = 4, .ep = 2}});
  cases.push_back({"tiny-moe", {.dp = 2, .tp = 2, .ep = 2, .zero = 1}});
  cases.push_back({"tiny-moe", {.dp = 2, .pp = 2, .ep = 2, .microbatches = 2}});
  return cases;
}

class PlanParity : public testing::TestWithParam<Case> {};

TEST_P(PlanParity, MatchesOneDevice) {
  ExpectParity(Known(GetParam().model), {GetParam().degrees}, Clipped());
}

// Over slow links between machines, a value is sent in slices, which the devices of the next stage gather.
TEST(SlicedPlanParity, MatchesOneDevice) {
  Cluster pairs = ClusterFromYaml(
      "link: {name: slow, bandwidth: 1 GB/s, latency: 5 us}\n"
      "nodes:\n  - {name: pair, count: 4, device: cpu-core, devices: 2, "
      "link: {name: fast, bandwidth: 9 GB/s, latency: 1 us}}\n",
      "pairs");
  for (const char* name : {"tiny-gpt2", "tiny-llama"}) {
    auto [_, model, batch] = Known(name);
    Curve expected = OneDevice(model.graph, batch, {});
    for (const Degrees& degrees :
         {Degrees{.tp = 2, .pp = 2, .microbatches = 2},
          Degrees{.dp = 2, .tp = 2, .pp = 2, .microbatches = 2, .zero = 1},
          Degrees{.tp = 2, .pp = 3, .microbatches = 2, .recompute = kFull}}) {
      SCOPED_TRACE(testing::PrintToString(Case{name, degrees}));
      Plan plan = ExpertPlan(model, pairs, degrees);
      Program program = Lower(model, plan);
      const StageTransfer& transfer = program.transfers.front();
      const Local& arrives = program.stages[transfer.to_stage].locals[transfer.to_local];
      EXPECT_NE(arrives.sharding.split_axes() & AxisSet(degrees.dp > 1 ? 1 : 0), 0u);
      ExpectSame(OnThreads(model, plan, batch, {}), expected);
    }
  }
}

// Offloading the optimizer state gives bitwise equal results.
TEST(OffloadedPlans, AreTheSamePlans) {
  for (const char* name : {"tiny-gpt2", "tiny-moe"}) {
    auto [_, model, batch] = Known(name);
    for (Degrees degrees :
         {Degrees{}, Degrees{.dp = 2}, Degrees{.dp = 2, .microbatches = 2, .zero = 1},
          Degrees{.dp = 2, .tp = 2, .zero = 3}, Degrees{.pp = 2, .microbatches = 2},
          Degrees{.dp = 2, .zero = 1, .precision = DType::kBF16}}) {
      Plan resident = ExpertPlan(model, LoadCluster("local:8"), degrees);
      Curve expected = OnThreads(model, resident, batch, Clipped());
      degrees.offload = Offload::kOptimizer;
      SCOPED_TRACE(testing::PrintToString(Case{name, degrees}));
      Plan plan = ExpertPlan(model, LoadCluster("local:8"), degrees);
      ExpectSame(OnThreads(model, plan, batch, Clipped()), expected, 1e-300);
    }
  }
}

// With unequal shares of the data ranks, the loss and the gradients are those of one device.
TEST(UnevenPlans, MatchOneDevice) {
  for (const char* name : {"tiny-gpt2", "tiny-moe", "tiny-cnn"}) {
    Sample sample = Known(name);
    int64_t samples = BatchSize(sample.model);
    ExpectParity(sample,
                 {{.dp = 2, .shares = {1, samples - 1}},
                  {.dp = 2, .shares = {3, 1}},
                  {.dp = 3, .zero = 1, .shares = {1, samples - 2, 1}},
                  {.dp = 2, .tp = 2, .zero = 3, .shares = {1, 3}},
                  {.dp = 2, .pp = 2, .zero = 2, .recompute = kFull, .shares = {3, 1}}},
                 Clipped());
  }
}

// Stages name their devices, share some of them, and leave others idle.
TEST(PlacedPlans, MatchOneDevice) {
  for (const char* name : {"tiny-gpt2", "tiny-moe", "tiny-cnn"}) {
    auto [_, model, batch] = Known(name);
    Curve expected = OneDevice(model.graph, batch, Clipped());
    int64_t samples = BatchSize(model);
    for (Degrees degrees : {Degrees{.dp = 2, .pp = 3}, Degrees{.dp = 2, .pp = 3, .zero = 2},
                            Degrees{.dp = 2, .pp = 3, .microbatches = 2},
                            Degrees{.dp = 2, .pp = 3, .sync = GradientSync::kFactors},
                            Degrees{.dp = 2, .pp = 3, .sync = GradientSync::kServer},
                            Degrees{.dp = 2, .tp = 2, .pp = 3, .recompute = kFull}}) {
      SCOPED_TRACE(testing::PrintToString(Case{name, degrees}));
      if (degrees.microbatches > 1 && std::string_view(name) == "tiny-cnn") continue;
      Plan plan = ExpertPlan(model, LoadCluster("local:16"), degrees);
      Mesh &first = plan.stages[0].mesh, &middle = plan.stages[1].mesh, &last = plan.stages[2].mesh;
      if (degrees.tp == 2) {
        Place(middle, {1, 2, 4, 7});
        Place(last, {8, 9, 11, 12});
      } else {
        Place(first, {0, 4});
        if (degrees.microbatches == 1) middle.axes[0] = {"dp", 3, {1, samples - 2, 1}};
        Place(middle, degrees.microbatches == 1 ? std::vector<int64_t>{0, 2, 5}
                                                : std::vector<int64_t>{0, 5});
        Place(last, {1, 6});
      }
      ASSERT_EQ(Verify(plan, model), std::vector<std::string>{});
      ExpectSame(OnThreads(model, plan, batch, Clipped()), expected);
    }
  }
}

// With gradient factors and servers instead of reductions, losses are those of the run with reductions, gradients are
// those of one device, and bytes are those of the program.
class SyncParity : public testing::TestWithParam<Case> {};

TEST_P(SyncParity, MatchesReducedGradients) {
  auto [name, model, batch] = Known(GetParam().model);
  Degrees degrees = GetParam().degrees;
  if (name == "tiny-cnn") degrees.local_batch_statistics = degrees.microbatches > 1;
  CurveOptions options = Clipped();
  options.steps = 5;
  Cluster cluster = LoadCluster("local:8");
  Plan plan = ExpertPlan(model, cluster, degrees);
  EXPECT_EQ(Verify(plan, model), std::vector<std::string>{});
  EXPECT_EQ(Verify(Lower(model, plan)), std::vector<std::string>{});
  size_t chosen = 0;
  for (const Stage& stage : plan.stages) chosen += stage.sync.size();
  EXPECT_GT(chosen, 0u);
  Curve got = OnThreads(model, plan, batch, options);
  degrees.sync = GradientSync::kReduce;
  Curve reduced = OnThreads(model, ExpertPlan(model, cluster, degrees), batch, options);
  for (size_t s = 0; s < reduced.losses.size(); ++s)
    EXPECT_NEAR(got.losses[s], reduced.losses[s], 1e-6 * std::abs(reduced.losses[s])) << s;
  if (!degrees.local_batch_statistics) ExpectSame(got, OneDevice(model.graph, batch, options));
}

std::vector<Case> SyncCases() {
  constexpr GradientSync kFactors = GradientSync::kFactors, kServer = GradientSync::kServer;
  return {
      {"tiny-mlp", {.dp = 2, .sync = kFactors}},
      {"tiny-cnn", {.dp = 2, .sync = kFactors}},
      {"tiny-moe", {.dp = 2, .tp = 2, .sync = kFactors}},
      {"tiny-t5", {.dp = 2, .microbatches = 2, .sync = kFactors}},
      {"tiny-gpt2", {.dp = 3, .sync = kFactors}},
      {"tiny-gpt2", {.dp = 2, .tp = 2, .sp = true, .microbatches = 2, .zero = 1, .sync = kFactors}},
      {"tiny-gpt2", {.dp = 2, .cp = 2, .sync = kFactors}},
      {"tiny-llama", {.dp = 2, .pp = 2, .microbatches = 2, .recompute = kFull, .sync = kFactors}},
      {"tiny-llama", {.dp = 2, .pp = 2, .microbatches = 2, .schedule = "zb-h1", .sync = kFactors}},
      {"tiny-moe", {.dp = 4, .ep = 2, .sync = kFactors}},
      {"tiny-cnn", {.dp = 2, .microbatches = 2, .sync = kFactors}},
      {"tiny-gpt2", {.dp = 2, .shares = {1, 3}, .sync = kFactors}},
      {"tiny-mlp", {.dp = 3, .sync = kServer}},
      {"tiny-moe", {.dp = 2, .shares = {3, 1}, .sync = kServer}},
      {"tiny-llama", {.dp = 2, .zero = 1, .sync = kServer}},
      {"tiny-moe", {.dp = 4, .ep = 2, .sync = kServer}},
      {"tiny-gpt2",
       {.dp = 2,
        .tp = 2,
        .pp = 2,
        .microbatches = 2,
        .offload = Offload::kOptimizer,
        .sync = kServer}},
  };
}

INSTANTIATE_TEST_SUITE_P(Matrix, SyncParity, testing::ValuesIn(SyncCases()),
                         [](const auto& info) { return "plan" + std::to_string(info.index); });

// A projection with queries, keys and values of unlike sizes: q has 4 of its pieces, k and v have one each.
TEST(FusedPlanParity, MatchesOneDevice) {
  ExpectParity(BuiltIn("gpt:layers=2,hidden=32,heads=8,kv_heads=2,vocab=50,seq=16,batch=4"),
               {{.tp = 2},
                {.tp = 3},
                {.tp = 4, .sp = true},
                {.dp = 2, .tp = 2, .zero = 3},
                {.dp = 2, .tp = 2, .pp = 2, .sp = true, .microbatches = 2, .zero = 1}},
               {});
}

INSTANTIATE_TEST_SUITE_P(Matrix, PlanParity, testing::ValuesIn(Cases()),
                         [](const auto& info) { return "plan" + std::to_string(info.index); });

// bf16 rounds, so the curve is only near that of fp32, and the curves of plans are near each other. Without AVX-512,
// libtorch has no oneDNN kernels for bf16 on the CPU, and its own kernels accumulate in bf16.
TEST(NarrowPlans, Bf16FollowsFp32) {
  const double tolerance = __builtin_cpu_supports("avx512bw") ? 5e-2 : 1e-1;
  std::vector<Degrees> plans = {{},
                                {.dp = 2, .zero = 3},
                                {.dp = 2, .sync = GradientSync::kFactors},
                                {.dp = 2, .sync = GradientSync::kServer},
                                {.dp = 2, .tp = 2, .microbatches = 2, .zero = 1},
                                {.tp = 2, .pp = 2, .microbatches = 2, .schedule = "zb-h1"}};
  for (Degrees& degrees : plans) degrees.precision = DType::kBF16;
  for (const char* name : {"tiny-gpt2", "tiny-llama"})
    ExpectParity(Known(name), plans, {}, tolerance);
  std::erase_if(plans, [](const Degrees& degrees) { return degrees.microbatches > 1; });
  ExpectParity(Known("tiny-cnn"), plans, {}, tolerance);  // it computes batch statistics
}

// f16 rounds less than bf16, and its gradients use loss scaling.
TEST(NarrowPlans, F16FollowsFp32) {
  std::vector<Degrees> plans = {{},
                                {.dp = 2, .zero = 3},
                                {.dp = 2, .sync = GradientSync::kFactors},
                                {.dp = 2, .sync = GradientSync::kServer},
                                {.tp = 2, .pp = 2, .microbatches = 2, .schedule = "zb-h1"}};
  for (Degrees& degrees : plans) degrees.precision = DType::kF16;
  ExpectParity(BuiltIn("gpt:layers=2,hidden=32,heads=4,vocab=50,seq=16,batch=4"), plans, {}, 1e-2);
}

// Ranks on one GPU, through pinned memory.
TEST(CudaPlans, MatchOneDeviceOnTheCpu) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  CurveOptions options = Clipped();
  options.device = at::Device(at::kCUDA, 0);
  ExpectParity(BuiltIn("gpt:layers=2,hidden=32,heads=4,vocab=51,seq=16,batch=4"),
               {{},
                {.dp = 2},
                {.tp = 2},
                {.pp = 2, .microbatches = 2},
                {.dp = 2, .zero = 3},
                {.cp = 2},
                {.tp = 2, .sp = true},
                {.microbatches = 2, .recompute = kFull},
                {.tp = 2, .pp = 2, .microbatches = 2, .schedule = "zb-h1"},
                {.offload = Offload::kOptimizer},
                {.dp = 2, .sync = GradientSync::kFactors},
                {.dp = 2, .sync = GradientSync::kServer},
                {.dp = 2, .zero = 1, .offload = Offload::kOptimizer}},
               options);
}

}  // namespace
}  // namespace heddle
