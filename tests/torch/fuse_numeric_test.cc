// Fusion does not change models: a model of each known pattern has the same loss and gradients with and without fusion.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "frontend/fuse.h"
#include "frontend/fuse_patterns.h"
#include "runtime/single_device.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

constexpr double kFusedTolerance = 1e-5;

Batch RandomInputs(const Graph& graph) {
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal;
  Batch batch;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    std::vector<double> numbers(static_cast<size_t>(ElementCount(value.type.shape)));
    for (double& number : numbers) number = normal(rng);
    batch[value.name] = ToTorchTensor(MakeTensor(value.type.dtype, value.type.shape, numbers));
  }
  return batch;
}

struct Step {
  double loss;
  std::map<std::string, at::Tensor> gradients;
};

Step RunModel(const Graph& graph, const Batch& batch) {
  SingleDevice model(graph, {.seed = 5});
  StepResult result = model.Run(batch, 0);
  Step step{result.loss, {}};
  for (size_t p = 0; p < result.gradients.size(); ++p) {
    step.gradients[model.parameter_names()[p]] = result.gradients[p];
  }
  return step;
}

double RelativeError(const at::Tensor& got, const at::Tensor& want) {
  double scale = std::max(1.0, want.abs().max().item<double>());
  return (got - want).abs().max().item<double>() / scale;
}

class FuseNumeric : public testing::TestWithParam<FusePattern> {};

TEST_P(FuseNumeric, LossAndGradientsStay) {
  PatternModel model;
  ValueId value = GetParam().build(model);
  Graph plain = model.Finish({value});
  Graph fused = RunPasses(RunPasses(plain, CleanUpPasses()), FusionPasses());
  ASSERT_EQ(PatternOps(fused), GetParam().ops);

  Batch batch = RandomInputs(plain);
  Step want = RunModel(plain, batch), got = RunModel(fused, batch);
  ASSERT_TRUE(std::isfinite(want.loss));
  EXPECT_LE(std::abs(got.loss - want.loss), kFusedTolerance * std::max(1.0, std::abs(want.loss)));
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (const auto& [name, gradient] : want.gradients) {
    ASSERT_TRUE(got.gradients.contains(name)) << name;
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << name << " is not tested at all";
    EXPECT_LE(RelativeError(got.gradients.at(name), gradient), kFusedTolerance) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, FuseNumeric, testing::ValuesIn(AllFusePatterns()),
                         [](const testing::TestParamInfo<FusePattern>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace heddle
