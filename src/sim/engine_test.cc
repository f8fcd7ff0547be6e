// Compares the engine with closed forms. Every stage takes one second per half, and communication takes no time.
#include "sim/engine.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "schedule/schedule.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

struct Shape {
  int devices, chunks, microbatches;
};

SimResult RunUnit(const std::string& schedule, const Shape& shape, double f, double b, double w) {
  Model model = Analyse(Layers(shape.devices * shape.chunks * 2, shape.microbatches));
  Cluster cluster = LoadCluster("local:" + std::to_string(shape.devices));
  Degrees degrees;
  degrees.pp = shape.devices;
  degrees.chunks = shape.chunks;
  degrees.microbatches = shape.microbatches;
  degrees.schedule = schedule;
  Plan plan = ExpertPlan(model, cluster, degrees);
  for (Stage& stage : plan.stages) stage.times = {f, b, w};
  Program program = Lower(model, plan);
  Prepared prepared = Prepare(program, cluster, {});
  SetUnitTimes(program, prepared, f, b, w);
  return Summarise(program, prepared, Execute(prepared));
}

TEST(Engine, BubblesOfGpipeAnd1f1bAreTheClosedForm) {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (Shape shape : {Shape{2, 1, 2}, Shape{4, 1, 4}, Shape{4, 1, 8}, Shape{8, 1, 32}}) {
      SimResult result = RunUnit(schedule, shape, 1, 1, 1);
      double p = shape.devices, m = shape.microbatches;
      EXPECT_NEAR(result.step_seconds, 3 * (m + p - 1), 1e-9 * result.step_seconds) << schedule;
      EXPECT_NEAR(result.bubble, (p - 1) / (m + p - 1), 1e-9) << schedule;
      EXPECT_NEAR(result.critical.total(), result.step_seconds, 1e-9 * result.step_seconds);
      EXPECT_EQ(result.exposed_communication, 0);
    }
  }
}

TEST(Engine, TheBubbleOfInterleavedIsDividedByTheChunks) {
  for (Shape shape : {Shape{2, 2, 4}, Shape{4, 2, 8}, Shape{4, 3, 8}}) {
    SimResult result = RunUnit("interleaved", shape, 1, 1, 1);
    double p = shape.devices, m = shape.microbatches, v = shape.chunks;
    EXPECT_NEAR(result.step_seconds, 3 * (m * v + p - 1), 1e-9 * result.step_seconds);
    EXPECT_NEAR(result.bubble, (p - 1) / (v * m + p - 1), 1e-9);
  }
}

// Qi et al. 2024: with equal halves ZB-H1 idles (p-1)(F+B-W), and ZB-H2 (zb: 2p micro-batches in memory) does not idle
// where there are enough micro-batches.
TEST(Engine, BubblesOfZeroBubbleSchedulesAreTheClosedForms) {
  for (const std::string schedule : {"zb-h1", "zb"}) {
    for (Shape shape : {Shape{4, 1, 16}, Shape{8, 1, 32}}) {
      PipelineShape pipeline{shape.devices, 1, shape.microbatches, {}, 0};
      std::optional<double> bubble = FindSchedule(schedule)->bubble(pipeline);
      SimResult result = RunUnit(schedule, shape, 1, 1, 1);
      ASSERT_TRUE(bubble.has_value()) << schedule;
      double p = shape.devices, m = shape.microbatches;
      double idle = schedule == "zb-h1" ? p - 1 : 0;
      EXPECT_NEAR(result.bubble, *bubble, 1e-9) << schedule;
      EXPECT_NEAR(result.step_seconds, schedule == "zb-h1" ? 3 * m + idle : result.step_seconds,
                  1e-9 * m);
    }
  }
}

// A ring all-reduce of n bytes over p devices of one node: 2(p-1)/p n over each port, and 2(p-1) hops or those of a
// tree.
TEST(Engine, AnAllReduceTakesItsClosedForm) {
  int64_t width = 4096;
  Model model = Analyse(Layers(1, 8, width));
  Cluster cluster = LoadCluster("dgx-a100:1");
  Degrees degrees;
  degrees.dp = 8;
  Program program = Lower(model, ExpertPlan(model, cluster, degrees));
  Prepared prepared = Prepare(program, cluster, {});
  Timeline timeline = Execute(prepared);
  const std::vector<Instruction>& list = program.runs[0].instructions;
  double bytes = 4.0 * static_cast<double>(width * width);
  const Link& link = cluster.groups[0].link;
  double flow = 2 * 7.0 / 8 * bytes / (link.bandwidth * ConstantsOf(cluster.device_types[0]).near);
  int seen = 0;
  for (size_t t = 0; t < list.size(); ++t) {
    if (list[t].op != Opcode::kReduceGradients) continue;
    ++seen;
    const TaskTimes& when = timeline.times[0][t];
    EXPECT_NEAR(when.end - when.start, 2 * 7 * link.latency + flow, 1e-9 * flow);
  }
  EXPECT_EQ(seen, 1);
}

TEST(Engine, ASlowDeviceSetsThePace) {
  Model model = Analyse(Layers(4, 8));
  Cluster cluster = LoadCluster("local:2");
  Degrees degrees;
  degrees.dp = 2;
  Program program = Lower(model, ExpertPlan(model, cluster, degrees));
  SimOptions slow;
  slow.slow = {{.device = 1, .factor = 2}};
  SimResult even = Simulate(program, cluster, {});
  SimResult uneven = Simulate(program, cluster, slow);
  ASSERT_EQ(even.devices.size(), 1u);
  ASSERT_EQ(uneven.devices.size(), 2u);
  EXPECT_NEAR(uneven.devices[1].compute, 2 * uneven.devices[0].compute, 1e-9);
  EXPECT_GT(uneven.step_seconds, 1.5 * even.step_seconds);
}

}  // namespace
}  // namespace heddle
