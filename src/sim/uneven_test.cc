// Different shares of the batch for devices of different speed.
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
  // Work without the update, which both devices do in full.
  auto work = [](const DeviceResult& device) {
    return device.kinds.seconds[static_cast<size_t>(Opcode::kRun)];
  };
  EXPECT_NEAR(work(even.devices[1]) / work(even.devices[0]), 4, 0.5);
  EXPECT_NEAR(work(fair.devices[1]) / work(fair.devices[0]), 1, 0.25);
  EXPECT_LT(fair.step_seconds, even.step_seconds);
}

// The same shares in reverse order are worse than equal shares.
TEST(UnevenShares, OfTheSlowDeviceCount) {
  Model model = Analyse(Layers(4, 20000, 2048));
  EXPECT_GT(Step(model, {4000, 16000}).step_seconds, Step(model, {}).step_seconds);
}

// A profile of a device whose products run at `rate` and whose copies take `copy` seconds, whatever their size.
Profile Measured(const std::string& device, double rate, double copy) {
  LoadTimes load;
  load.ranks = 2;
  load.copy = {{{1, copy}, {1e12, copy}}};
  load.transfers["all-reduce"] = {{{1, 1e-6}, {1e12, 1e-6}}};
  load.kernels["f32"].tables[0] = {{1}, {1}, {1}, {rate}};
  Profile profile;
  profile.device = device;
  profile.loads = {load};
  profile.overlap = false;
  return profile;
}

TEST(MixedProfiles, EachDeviceHasItsOwn) {
  Model model = Analyse(Layers(2, 64, 64));
  Cluster cluster = ClusterFromYaml(
      "device_types:\n"
      "  - {name: fast, memory: 32 GiB, memory_bandwidth: 1 GB/s, fp32: 1 GFLOP/s}\n"
      "  - {name: slow, memory: 32 GiB, memory_bandwidth: 1 GB/s, fp32: 1 GFLOP/s}\n"
      "nodes:\n"
      "  - link: {bandwidth: 1 GB/s, latency: 1 us}\n"
      "    parts: [{device: fast}, {device: slow}]\n",
      "pair");
  Program program = Lower(model, ExpertPlan(model, cluster, {.dp = 2}));
  auto step = [&](const Profile& fast, const Profile& slow) {
    SimOptions options;
    AddProfile(options, fast);
    AddProfile(options, slow);
    return Simulate(program, cluster, options);
  };
  SimResult products = step(Measured("fast", 4e6, 1e-9), Measured("slow", 1e6, 1e-9));
  auto run = [&](size_t d) {
    return products.devices[d].kinds.seconds[static_cast<size_t>(Opcode::kRun)];
  };
  EXPECT_NEAR(run(1) / run(0), 4, 0.01);
  // A reduction lasts until the device with the slowest copies is done, whichever arrives last.
  double copies = step(Measured("fast", 1e6, 5), Measured("slow", 1e6, 1e-9)).step_seconds;
  EXPECT_GT(copies, 5);
  EXPECT_NEAR(copies, step(Measured("fast", 1e6, 1e-9), Measured("slow", 1e6, 5)).step_seconds,
              1e-6 * copies);
  EXPECT_GT(step(Measured("fast", 1e3, 1e-9), Measured("slow", 1e6, 5)).step_seconds,
            step(Measured("fast", 1e3, 1e-9), Measured("slow", 1e6, 1e-9)).step_seconds + 4);
}

}  // namespace
}  // namespace heddle
