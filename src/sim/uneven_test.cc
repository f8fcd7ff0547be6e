// Unlike parts of the batch for unlike devices.
#include <gtest/gtest.h>

#include "cluster/testing.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

SimResult Step(const Model& model, std::vector<int64_t> shares) {
  Cluster cluster = FastAndSlow();
  Degrees degrees{.dp = 2, .shares = std::move(shares)};
  return Simulate(Lower(model, ExpertPlan(model, cluster, degrees)), cluster, {});
}

TEST(UnevenShares, FollowTheSpeed) {
  Model model = Analyse(Layers(4, 20000, 2048));
  SimResult even = Step(model, {}), same = Step(model, {10000, 10000}),
            fair = Step(model, {16000, 4000});
  EXPECT_EQ(even.step_seconds, same.step_seconds);
  ASSERT_EQ(fair.devices.size(), 2u);
  // Work beside the update, which both do whole.
  auto work = [](const DeviceResult& device) {
    return device.kinds.seconds[static_cast<size_t>(Opcode::kRun)];
  };
  EXPECT_NEAR(work(even.devices[1]) / work(even.devices[0]), 4, 0.5);
  EXPECT_NEAR(work(fair.devices[1]) / work(fair.devices[0]), 1, 0.25);
  EXPECT_LT(fair.step_seconds, even.step_seconds);
}

// The same shares the other way round are worse than none.
TEST(UnevenShares, OfTheSlowDeviceCount) {
  Model model = Analyse(Layers(4, 20000, 2048));
  EXPECT_GT(Step(model, {4000, 16000}).step_seconds, Step(model, {}).step_seconds);
}

}  // namespace
}  // namespace heddle
