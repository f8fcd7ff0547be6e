// Held-out loss: under any plan it equals that of one device with the same weights, and it does not change training.
#include <gtest/gtest.h>

#include <cmath>

#include "../known_models.h"
#include "../run_binary.h"
#include "base/json.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan_harness.h"
#include "program/lower.h"
#include "program/verify.h"
#include "runtime/accelerator.h"
#include "runtime/data/batch.h"
#include "runtime/prune.h"
#include "runtime/train.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

constexpr int64_t kHeldOutSteps = 4;

// A sequence of batches, repeated.
class GivenBatches : public DataSource {
 public:
  explicit GivenBatches(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  Batch Rows(int64_t step, Block rows) const override {
    return RowsOf(batches_[static_cast<size_t>(step) % batches_.size()], rows);
  }
  std::string Describe() const override { return "given"; }
  uint64_t Fingerprint() const override { return 0; }

 private:
  std::vector<Batch> batches_;
};

struct HeldOutRun {
  Model model;
  Plan plan = {};
  const Mask* mask = nullptr;
  at::Device device = at::kCPU;

  TrainSummary Train(const std::vector<Batch>& data, const std::vector<Batch>& held_out,
                     int64_t every = 1) const {
    Program program = Lower(model, plan, mask), forward = LowerForward(model, plan, mask);
    EXPECT_EQ(Verify(forward), std::vector<std::string>{});
    GivenBatches training(data), other(held_out.empty() ? data : held_out);
    WeightSource weights = MakeWeights(model.graph, model.rules, {.seed = 3});
    ConstantSource constants = MakeConstants(model.graph, {.seed = 3});
    TrainOptions options;
    options.steps = kHeldOutSteps;
    options.seed = 3;
    options.lr.lr = 1e-3;
    options.clip_norm = 1;
    options.mask = mask;
    options.device = device;
    options.evaluation = {.every = every, .batches = static_cast<int64_t>(held_out.size())};
    TrainInputs inputs{program, weights, constants, training};
    if (!held_out.empty()) inputs.forward = &forward;
    if (!held_out.empty()) inputs.held_out = &other;
    TrainSummary summary;
    RunRanks(static_cast<int>(program.device_count()), [&](Transport& transport) {
      TrainSummary mine = TrainDevice(inputs, options, transport, [](const StepRecord&) {});
      if (transport.rank() == 0) summary = std::move(mine);
    });
    return summary;
  }
};

std::vector<double> LossesOf(const TrainSummary& summary) {
  std::vector<double> losses;
  for (const StepRecord& step : summary.steps) losses.push_back(step.loss);
  return losses;
}

std::vector<double> HeldOutOf(const TrainSummary& summary) {
  std::vector<double> losses;
  for (const HeldOutLoss& at : summary.evaluations) losses.push_back(at.loss);
  return losses;
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i])) << i;
}

// The same batch is trained on and held out, so the held-out loss after n steps equals the loss of step n.
void ExpectLossesOfTraining(const HeldOutRun& run, const Batch& batch,
                            const std::vector<double>* one_device) {
  TrainSummary plain = run.Train({batch}, {}), looked = run.Train({batch}, {batch});
  EXPECT_TRUE(plain.evaluations.empty());
  if (run.device.is_cpu()) {
    EXPECT_EQ(LossesOf(looked), LossesOf(plain));
  } else {
    ExpectNear(LossesOf(looked), LossesOf(plain), 1e-6);
  }
  std::vector<double> held_out = HeldOutOf(looked), losses = LossesOf(plain);
  ASSERT_EQ(held_out.size(), static_cast<size_t>(kHeldOutSteps) + 1);
  EXPECT_EQ(looked.evaluations.back().step, kHeldOutSteps);
  held_out.pop_back();  // the evaluation after the last step, which no step follows
  ExpectNear(held_out, losses, 1e-6);
  if (one_device != nullptr) ExpectNear(held_out, *one_device, 1e-4);
}

std::vector<Degrees> HeldOutPlans() {
  constexpr RecomputePolicy kFull = RecomputePolicy::kFull;
  return {{},
          {.dp = 2},
          {.dp = 2, .microbatches = 2, .zero = 1},
          {.dp = 2, .zero = 2},
          {.dp = 2, .microbatches = 2, .zero = 3},
          {.tp = 2},
          {.pp = 2, .microbatches = 2, .recompute = kFull},
          {.tp = 2, .pp = 2, .microbatches = 2},
          {.dp = 2, .sync = GradientSync::kServer},
          {.dp = 2, .sync = GradientSync::kFactors},
          {.dp = 2, .tp = 2, .zero = 1}};
}

std::vector<Degrees> HeldOutPlansOfSequences() {
  constexpr RecomputePolicy kSelective = RecomputePolicy::kSelective;
  return {{.tp = 2, .sp = true, .microbatches = 2, .recompute = kSelective},
          {.tp = 2, .sp = true},
          {.cp = 2},
          {.pp = 2, .microbatches = 4, .schedule = "zb-h1"},
          {.pp = 2, .microbatches = 2, .chunks = 2, .schedule = "interleaved"},
          {.pp = 2, .microbatches = 2, .schedule = "gpipe"},
          {.dp = 2, .tp = 2, .pp = 2, .sp = true, .microbatches = 2, .zero = 1},
          {.dp = 2, .zero = 1, .offload = Offload::kOptimizer}};
}

class HeldOutPlan : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const KnownModel& known : KnownModels()) {
      if (known.name != GetParam()) continue;
      run_.model = Analyse(LoadModel(known.path, {}));
      batch_ = ReadBatch(run_.model.graph, known.reference);
    }
    sequences_ = GetParam() == "tiny-gpt2" || GetParam() == "tiny-llama";
  }

  std::vector<Degrees> Plans() const {
    std::vector<Degrees> plans = HeldOutPlans();
    if (sequences_) {
      for (const Degrees& degrees : HeldOutPlansOfSequences()) plans.push_back(degrees);
    }
    return plans;
  }

  void UsePlan(const Degrees& d) {
    run_.plan = ExpertPlan(run_.model, LoadCluster("local:8"), d);
    if (run_.mask != nullptr) run_.plan.pruning = run_.mask->pruning();
  }

  HeldOutRun run_;
  Batch batch_;
  bool sequences_ = false;
};

std::string Shown(const Degrees& d) {
  return testing::PrintToString(
      std::vector<int64_t>{d.dp, d.tp, d.pp, d.cp, d.sp, d.microbatches, d.zero});
}

TEST_P(HeldOutPlan, IsOneDevicesLossAndChangesNothing) {
  CurveOptions options;
  options.steps = kHeldOutSteps;
  options.optimizer.lr = 1e-3;
  options.clip_norm = 1;
  std::vector<double> expected = OneDevice(run_.model.graph, batch_, options).losses;
  for (const Degrees& degrees : Plans()) {
    SCOPED_TRACE(GetParam() + " dp tp pp cp sp m zero " + Shown(degrees));
    UsePlan(degrees);
    ExpectLossesOfTraining(run_, batch_, &expected);
  }
}

TEST_P(HeldOutPlan, AlsoOfPrunedModels) {
  WeightSource weights = MakeWeights(run_.model.graph, run_.model.rules, {.seed = 3});
  std::map<std::string, HostTensor> masks = MakeMasks(run_.model, weights, {.sparsity = 0.8});
  std::vector<NamedTensor> named;
  for (const auto& [name, mask] : masks) named.push_back({name, &mask});
  TempFolder folder;
  WriteSafetensors(folder / "mask.safetensors", named);
  Mask mask = Mask::Open(folder / "mask.safetensors", run_.model);
  run_.mask = &mask;
  std::vector<double> expected;
  for (const Degrees& degrees : HeldOutPlans()) {
    SCOPED_TRACE(GetParam() + " pruned, dp tp pp cp sp m zero " + Shown(degrees));
    UsePlan(degrees);
    ExpectLossesOfTraining(run_, batch_, expected.empty() ? nullptr : &expected);
    if (expected.empty()) expected = LossesOf(run_.Train({batch_}, {}));
  }
}

INSTANTIATE_TEST_SUITE_P(All, HeldOutPlan,
                         testing::Values("tiny-mlp", "tiny-cnn", "tiny-gpt2", "tiny-llama",
                                         "tiny-moe", "tiny-t5"),
                         [](const auto& at) {
                           std::string name = at.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

constexpr const char* kHeldOutModel = "gpt:layers=2,hidden=32,heads=4,vocab=51,seq=16,batch=4";

// The mean over batches that are not trained on, at the requested steps and the last one.
TEST(HeldOut, IsTheMeanOverOtherBatches) {
  HeldOutRun run{.model = Analyse(LoadModel(kHeldOutModel))};
  run.plan = ExpertPlan(run.model, LoadCluster("local:2"), {.dp = 2});
  std::vector<Batch> other;
  double expected = 0;
  SingleDevice one(run.model.graph, {.seed = 3});
  for (uint64_t seed : {11, 12, 13}) {
    other.push_back(SyntheticBatch(run.model.graph, seed));
    expected += one.Run(other.back(), 0).loss / 3;
  }
  TrainSummary summary = run.Train({SyntheticBatch(run.model.graph, 5)}, other, 3);
  ASSERT_EQ(summary.evaluations.size(), 3u);
  EXPECT_NEAR(summary.evaluations[0].loss, expected, 1e-5 * expected);
  EXPECT_EQ(summary.evaluations[1].step, 3);
  EXPECT_EQ(summary.evaluations[2].step, kHeldOutSteps);
  EXPECT_NE(summary.evaluations[1].loss, summary.evaluations[0].loss);
}

TEST(HeldOut, NothingIsDroppedOut) {
  std::string dropped = std::string(kHeldOutModel) + ",dropout=0.3";
  HeldOutRun run{.model = Analyse(LoadModel(dropped))},
      whole{.model = Analyse(LoadModel(kHeldOutModel))};
  Batch batch = SyntheticBatch(run.model.graph, 5);
  double expected = SingleDevice(whole.model.graph, {.seed = 3}).Run(batch, 0).loss;
  for (const Degrees& degrees : {Degrees{}, Degrees{.dp = 2}, Degrees{.tp = 2}}) {
    run.plan = ExpertPlan(run.model, LoadCluster("local:2"), degrees);
    TrainSummary summary = run.Train({batch}, {batch}), plain = run.Train({batch}, {});
    EXPECT_NEAR(summary.evaluations[0].loss, expected, 1e-5 * expected);
    EXPECT_GT(std::abs(summary.steps[0].loss - expected), 1e-3);
    EXPECT_EQ(LossesOf(summary), LossesOf(plain));
  }
}

TEST(HeldOut, OnAGpu) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  HeldOutRun run{.model = Analyse(LoadModel(kHeldOutModel)), .device = at::Device(at::kCUDA, 0)};
  Batch batch = SyntheticBatch(run.model.graph, 5);
  for (const Degrees& degrees : {Degrees{}, Degrees{.dp = 2, .zero = 3}, Degrees{.tp = 2},
                                 Degrees{.pp = 2, .microbatches = 2}}) {
    SCOPED_TRACE(Shown(degrees));
    run.plan = ExpertPlan(run.model, LoadCluster("local:2"), degrees);
    ExpectLossesOfTraining(run, batch, nullptr);
  }
}

// ---- From the command line.

const std::string kHeldOutText = "gpt:layers=1,hidden=16,heads=2,vocab=256,seq=16,batch=2";

class HeldOutCli : public testing::Test {
 protected:
  HeldOutCli() {
    std::string text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
    std::ofstream(folder_ / "train.txt") << text;
    std::ofstream(folder_ / "other.txt") << text.substr(0, 1000);
  }
  std::string Line(const std::string& more) const {
    return "train " + kHeldOutText + " --steps 6 --data " + folder_ / "train.txt" + " " + more;
  }
  Json Trained(const std::string& more) const {
    RunOutput run = RunHeddle(Line(more + " --json"));
    EXPECT_EQ(run.status, 0) << run.err;
    return ParseJson(run.out, "output");
  }
  TempFolder folder_;
};

TEST_F(HeldOutCli, IsOnTheScreenInTheMetricsAndInJson) {
  std::string held = "--eval-data " + folder_ / "other.txt" + " --eval-every 4 --eval-steps 2";
  Json plain = Trained(""), json = Trained(held + " --metrics " + folder_ / "m.jsonl");
  EXPECT_FALSE(plain.contains("eval"));
  EXPECT_EQ(json["losses"], plain["losses"]);
  ASSERT_EQ(json["eval"].size(), 3u);
  std::vector<int64_t> steps;
  std::string metrics = Slurp(folder_ / "m.jsonl"), lines;
  for (const Json& at : json["eval"]) {
    steps.push_back(at["step"].get<int64_t>());
    EXPECT_GT(at["loss"].get<double>(), 0);
    lines = R"({"step":)" + at["step"].dump() + R"(,"eval_loss":)" + at["loss"].dump() + "}\n";
    EXPECT_NE(metrics.find(lines), std::string::npos) << lines << metrics;
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 4, 6}));
  // Ranks are processes, and a supervisor prints their result.
  Json ranks = Trained(held + " --dp 2 --zero 3");
  ASSERT_EQ(ranks["eval"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    double loss = json["eval"][i]["loss"].get<double>();
    EXPECT_NEAR(ranks["eval"][i]["loss"].get<double>(), loss, 1e-4 * loss);
  }
  RunOutput screen = RunHeddle(Line(held));
  for (std::string word : {"held-out loss", "after 0 steps", "after 4 steps", "after 6"})
    EXPECT_NE(screen.out.find(word), std::string::npos) << screen.out;
}

// A resumed run also continues to measure held-out losses.
TEST_F(HeldOutCli, GoesOnFromACheckpoint) {
  std::string held = "--eval-data " + folder_ / "other.txt" + " --eval-every 2 ";
  Json whole = Trained(held);
  std::string saved = " --checkpoint " + folder_ / "saved";
  Json first = ParseJson(RunHeddle("train " + kHeldOutText + " --steps 4 --data " +
                                   folder_ / "train.txt" + " " + held + saved + " --json")
                             .out,
                         "");
  Json rest = Trained(held + saved + " --resume");
  Json all = first["eval"];
  for (const Json& at : rest["eval"]) all.push_back(at);
  EXPECT_EQ(all, whole["eval"]);
}

TEST_F(HeldOutCli, MistakesAreOneLine) {
  std::string other = "--eval-data " + folder_ / "other.txt";
  std::ofstream(folder_ / "wild.txt") << std::string(2000, '\xff');
  ExpectRefused(Line("--eval-data " + folder_ / "none.txt"), {"none.txt"});
  ExpectRefused(Line(other + " --eval-every 0"), {"--eval-every"});
  ExpectRefused(Line(other + " --eval-steps 0"), {"--eval-steps"});
  ExpectRefused(Line("--eval-every 2"), {"--eval-every", "--eval-data"});
  ExpectRefused("train gpt:layers=1,hidden=16,heads=2,vocab=200,seq=16,batch=2 --steps 2 --data " +
                    folder_ / "train.txt" + " --eval-data " + folder_ / "wild.txt",
                {"wild.txt", "255"});
}

}  // namespace
}  // namespace heddle
