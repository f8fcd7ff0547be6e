#include "sim/compute_stream.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

TEST(ComputeStream, CoversTheStepAndAddsUpToTheSummary) {
  for (bool overlap : {true, false}) {
    Model model = Analyse(Layers(8, 32, 64));
    Cluster cluster = LoadCluster("dgx-h100:2");
    Program program =
        Lower(model, ExpertPlan(model, cluster, {.dp = 2, .tp = 2, .pp = 4, .microbatches = 8}));
    SimOptions options;
    options.stack.overlap_gradients = options.stack.overlap_transfers = overlap;
    Simulation simulation = RunSimulation(program, cluster, options);
    for (size_t c = 0; c < simulation.result.devices.size(); ++c) {
      double until = 0, sums[3] = {};
      for (const Slice& slice :
           ComputeStream(simulation.prepared, simulation.timeline, static_cast<int>(c))) {
        EXPECT_EQ(slice.start, until);
        EXPECT_LT(slice.start, slice.end);
        until = slice.end;
        sums[static_cast<size_t>(slice.kind)] += slice.end - slice.start;
        EXPECT_TRUE(slice.kind != SliceKind::kWork || slice.task >= 0);
      }
      EXPECT_EQ(until, simulation.timeline.seconds);
      const DeviceResult& device = simulation.result.devices[c];
      EXPECT_DOUBLE_EQ(device.compute, sums[0]);
      EXPECT_DOUBLE_EQ(device.exposed, sums[1]);
      EXPECT_DOUBLE_EQ(device.bubble, sums[2]);
      EXPECT_GT(device.exposed, 0);
      EXPECT_GT(device.bubble, 0);
    }
  }
}

}  // namespace
}  // namespace heddle
