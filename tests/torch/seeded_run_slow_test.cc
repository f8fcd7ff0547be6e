// Every model with fewer than 200M parameters runs forward and backward once from seeded weights.
#include <gtest/gtest.h>

#include <cmath>

#include "../known_models.h"
#include "frontend/load.h"
#include "ops/analysis.h"
#include "runtime/data/batch.h"
#include "runtime/single_device.h"

namespace heddle {
namespace {

constexpr int64_t kLargest = 200'000'000;

std::vector<KnownModel> SmallEnough() {
  std::vector<KnownModel> models;
  for (KnownModel& model : KnownModels()) {
    // models.json has no parameter counts for default exports, but their models are small enough.
    if (model.parameters.value_or(0) < kLargest) models.push_back(model);
  }
  return models;
}

class SeededRun : public testing::TestWithParam<KnownModel> {};

TEST_P(SeededRun, LossAndGradientsAreFinite) {
  Graph graph = LoadModel(GetParam().path);
  ASSERT_LT(Measure(graph).parameters, kLargest);
  SingleDevice model(graph, {.seed = 1, .seeded = true, .fill_constants = true});
  StepResult step = model.Run(SyntheticBatch(graph, 1), 0);
  EXPECT_TRUE(std::isfinite(step.loss)) << step.loss;
  EXPECT_GT(step.loss, 0);
  for (size_t p = 0; p < step.gradients.size(); ++p) {
    EXPECT_TRUE(step.gradients[p].isfinite().all().item<bool>()) << model.parameter_names()[p];
  }
}

INSTANTIATE_TEST_SUITE_P(All, SeededRun, testing::ValuesIn(SmallEnough()),
                         [](const auto& info) { return TestName(info.param.name); });

}  // namespace
}  // namespace heddle
