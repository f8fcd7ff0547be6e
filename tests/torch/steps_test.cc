// Sequences of steps: captured steps give the results of others, and overflowing f16 gradients change nothing.
#include <gtest/gtest.h>

#include <cmath>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/accelerator.h"
#include "runtime/data/batch.h"
#include "runtime/executor.h"
#include "runtime/transport/threads.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

constexpr const char* kModel = "gpt:layers=2,hidden=32,heads=4,vocab=51,seq=16,batch=4";

struct Trained {
  std::vector<StepRecord> steps;
  std::string not_captured;
  std::vector<ParameterPart> weights;
};

// Trains on one device. Calls `before` with the executor before every step.
Trained Train(
    DType precision, ExecutorOptions options, int64_t steps,
    const std::function<void(Executor&, int64_t)>& before = [](Executor&, int64_t) {}) {
  Model model = Analyse(LoadModel(kModel));
  Degrees degrees;
  degrees.precision = precision;
  Program program = Lower(model, ExpertPlan(model, LoadCluster("local:1"), degrees));
  DataFn data = [&](int64_t step, Block rows) {
    return SyntheticRows(model.graph, 7 + static_cast<uint64_t>(step), rows);
  };
  Trained run;
  RunRanks(1, [&](Transport& transport) {
    options.lr = [](int64_t step) { return 1e-3 / static_cast<double>(1 + step); };
    Executor executor(program, transport, options, MakeWeights(model.graph, model.rules, {}),
                      MakeConstants(model.graph, {}), data);
    for (int64_t step = 0; step < steps; ++step) {
      before(executor, step);
      run.steps.push_back(executor.RunStep(step));
    }
    run.weights = executor.Weights();
    run.not_captured = executor.not_captured();
  });
  return run;
}

TEST(Steps, OverflowsSkipStepsAndHalveTheScale) {
  double sum = 0;
  auto sum_of = [](Executor& executor) {
    double all = 0;
    for (const ParameterPart& part : executor.Weights())
      all += part.values.to(at::kDouble).abs().sum().item<double>();
    return all;
  };
  Trained run = Train(DType::kF16, {}, 8, [&](Executor& executor, int64_t step) {
    if (step == 2) {
      executor.loss_scale()->set_state({0x1p40, 0});
      sum = sum_of(executor);
    } else if (step == 3) {
      EXPECT_EQ(sum_of(executor), sum);
    }
  });
  EXPECT_FALSE(run.steps[0].skipped);
  EXPECT_EQ(run.steps[1].loss_scale, 65536);
  EXPECT_TRUE(run.steps[2].skipped);
  EXPECT_EQ(run.steps[2].loss_scale, 0x1p39);
  EXPECT_TRUE(run.steps[3].skipped);
  EXPECT_EQ(run.steps[3].loss_scale, 0x1p38);
}

TEST(Steps, CapturedStepsGoOnAsTheOthers) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  for (DType precision : {DType::kF32, DType::kBF16, DType::kF16}) {
    ExecutorOptions options;
    options.clip_norm = 0.5;
    Trained host = Train(DType::kF32, options, 10);
    options.device = at::Device(at::kCUDA, 0);
    Trained captured = Train(precision, options, 10);
    options.capture = false;
    Trained eager = Train(precision, options, 10);
    EXPECT_EQ(captured.not_captured, "");
    double tolerance = precision == DType::kF32 ? 1e-4 : 2e-2;
    for (size_t s = 0; s < host.steps.size(); ++s) {
      EXPECT_NEAR(captured.steps[s].loss, eager.steps[s].loss, 1e-3 * tolerance + 1e-5) << s;
      EXPECT_NEAR(captured.steps[s].grad_norm, eager.steps[s].grad_norm, 1e-2) << s;
      EXPECT_NEAR(captured.steps[s].loss, host.steps[s].loss, tolerance * host.steps[s].loss) << s;
    }
  }
}

TEST(Steps, AnOverflowSkipsACapturedStep) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  ExecutorOptions options;
  options.device = at::Device(at::kCUDA, 0);
  Trained run = Train(DType::kF16, options, 10, [](Executor& executor, int64_t step) {
    if (step == 6) executor.loss_scale()->set_state({0x1p40, 0});
  });
  EXPECT_EQ(run.not_captured, "");
  EXPECT_FALSE(run.steps[5].skipped);
  EXPECT_TRUE(run.steps[6].skipped);
  EXPECT_EQ(run.steps[6].loss_scale, 0x1p39);
  for (const ParameterPart& part : run.weights)
    EXPECT_TRUE(at::isfinite(part.values).all().item<bool>()) << part.name;
}

}  // namespace
}  // namespace heddle
