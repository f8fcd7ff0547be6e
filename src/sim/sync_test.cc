// Compares the simulated cost of gradient factors and of servers with closed forms.
#include <gtest/gtest.h>

#include "cluster/load.h"
#include "cluster/yaml.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "program/text.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

constexpr int kLayers = 4;
constexpr int64_t kBatch = 8, kLayerWidth = 512, kRanks = 4;

struct Simulated {
  Program program;
  SimResult result;
};

Simulated SimulateWith(GradientSync sync, const Cluster& cluster, int64_t bucket_bytes) {
  Model model = Analyse(Layers(kLayers, kBatch, kLayerWidth));
  Plan plan = ExpertPlan(model, cluster, {.dp = kRanks, .sync = sync});
  plan.bucket_bytes = bucket_bytes;
  Simulated out{Lower(model, plan), {}};
  out.result = Simulate(out.program, cluster, {});
  return out;
}

int64_t GivenBytes(const Program& program, int64_t device, Opcode op) {
  int64_t bytes = 0;
  for (const Instruction& at : program.RunOf(device).instructions) {
    if (at.op == op && at.stream == Stream::kCommunication)
      bytes += PayloadBytes(program, at, device);
  }
  return bytes;
}

Cluster Slow() {
  return ClusterFromYaml(
      "link: {name: slow, bandwidth: 1 GB/s, latency: 5 us}\n"
      "nodes:\n  - {name: one, count: 4, device: h100-sxm, devices: 1}\n",
      "slow");
}

// Per layer, the operand and the gradient of the result are sent, of the samples that a device has; the first operand
// is an input.
TEST(Sync, FactorsAreWhatIsSent) {
  Simulated reduce = SimulateWith(GradientSync::kReduce, Slow(), 1);
  Simulated factors = SimulateWith(GradientSync::kFactors, Slow(), 1);
  int64_t weight = 4 * kLayerWidth * kLayerWidth, factor = 4 * kBatch / kRanks * kLayerWidth;
  for (int64_t device = 0; device < kRanks; ++device) {
    EXPECT_EQ(GivenBytes(reduce.program, device, Opcode::kReduceGradients), kLayers * weight);
    EXPECT_EQ(GivenBytes(factors.program, device, Opcode::kReduceGradients), 0);
    int64_t others = GivenBytes(reduce.program, device, Opcode::kReshard);
    EXPECT_EQ(GivenBytes(factors.program, device, Opcode::kReshard) - others,
              (2 * kLayers - 1) * factor);
  }
  EXPECT_LT(factors.result.step_seconds, 0.5 * reduce.result.step_seconds);
  double computed =
      factors.result.devices[0].kinds.seconds[static_cast<size_t>(Opcode::kFactorGradient)];
  EXPECT_GT(computed, 0);
  EXPECT_EQ(reduce.result.devices[0].kinds.seconds[static_cast<size_t>(Opcode::kFactorGradient)],
            0);
  // Every device computes the gradients of the whole batch, so all of them do the work of W.
  EXPECT_NEAR(factors.result.flops - reduce.result.flops,
              (kRanks - 1) * 2.0 * kLayers * kBatch * kLayerWidth * kLayerWidth, 1);
}

// Each group's server has its optimizer state, updates it and sends the weights. Each device is the server of one
// group.
TEST(Sync, ServersShareOutTheState) {
  Simulated reduce = SimulateWith(GradientSync::kReduce, Slow(), 1);
  Simulated server = SimulateWith(GradientSync::kServer, Slow(), 1);
  int64_t weight = 4 * kLayerWidth * kLayerWidth;
  for (int64_t device = 0; device < kRanks; ++device) {
    EXPECT_EQ(GivenBytes(server.program, device, Opcode::kReduceGradients), kLayers * weight);
    EXPECT_EQ(GivenBytes(server.program, device, Opcode::kGatherWeights), weight);
    MemoryTimeline whole = Replay(MemoryModel(reduce.program), device);
    MemoryTimeline served = Replay(MemoryModel(server.program), device);
    EXPECT_EQ(whole.held.optimizer, 2 * kLayers * weight);
    EXPECT_EQ(served.held.optimizer, 2 * weight);
    EXPECT_EQ(served.left, served.held);
  }
  auto update = [](const Simulated& at) {
    return at.result.devices[0].kinds.seconds[static_cast<size_t>(Opcode::kUpdate)];
  };
  EXPECT_LT(update(server), 0.5 * update(reduce));
}

}  // namespace
}  // namespace heddle
