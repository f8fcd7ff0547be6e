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

// Reductions of several gradient buckets that run after the last backward come before it in the program. The work in
// between does not count as idle time.
TEST(ComputeStream, CountsWorkThatReductionsArePutOffBehind) {
  Model model = Analyse(Layers(8, 32, 64));
  Cluster cluster = LoadCluster("dgx-h100:1");
  Plan plan = ExpertPlan(model, cluster, {.dp = 4, .pp = 2, .microbatches = 4});
  plan.bucket_bytes = 1;
  SimOptions options;
  options.stack.overlap_gradients = false;
  Simulation simulation = RunSimulation(Lower(model, plan), cluster, options);
  for (size_t c = 0; c < simulation.result.devices.size(); ++c) {
    const Prepared& prepared = simulation.prepared;
    const TaskList& list = prepared.lists[static_cast<size_t>(prepared.classes.devices[c].run)];
    double work = 0;
    for (size_t t = 0; t < list.tasks.size(); ++t) {
      const TaskTimes& when = simulation.timeline.times[c][t];
      bool local = list.tasks[t].kind == TaskKind::kLocal && list.tasks[t].compute_queue;
      if (local) work += when.end - when.start;
    }
    EXPECT_NEAR(simulation.result.devices[c].compute, work, 1e-9 * work);
  }
}

// Replicas send each other no messages. With stages of one device each, the only collectives are those for inputs and
// for the report at the end of the step.
TEST(ComputeStream, TellsMessagesFromCollectives) {
  Model model = Analyse(Layers(8, 32, 64));
  Cluster cluster = LoadCluster("dgx-h100:1");
  for (bool overlap : {true, false}) {
    SimOptions options;
    options.stack.overlap_gradients = options.stack.overlap_transfers = overlap;
    auto simulate = [&](const Degrees& degrees) {
      return Simulate(Lower(model, ExpertPlan(model, cluster, degrees)), cluster, options);
    };
    for (const DeviceResult& device : simulate({.dp = 4, .microbatches = 4}).devices) {
      EXPECT_GT(device.exposed, 0);
      EXPECT_EQ(device.exposed_messages, 0);
    }
    for (const DeviceResult& device : simulate({.pp = 4, .microbatches = 4}).devices) {
      double others = 0;
      for (Opcode op : {Opcode::kLoad, Opcode::kReport}) {
        others += device.kinds.seconds[static_cast<size_t>(op)];
      }
      EXPECT_GT(device.exposed_messages, 0);
      EXPECT_LE(device.exposed_messages, device.exposed);
      EXPECT_LE(device.exposed - device.exposed_messages, 1.01 * others);
    }
  }
}

}  // namespace
}  // namespace heddle
