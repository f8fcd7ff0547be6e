#include "report/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/sim_test_models.h"

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::Not;

SimulationReport Report(const Degrees& degrees, Cluster cluster, const SimOptions& options = {}) {
  Model model = Analyse(Layers(8, 64, 256));
  Plan plan = ExpertPlan(model, cluster, degrees);
  Program program = Lower(model, plan);
  return MakeReport(model, plan, program, RunSimulation(program, cluster, options), options);
}

TEST(SimulationReport, UtilisationIsWorkOverWhatDevicesCouldDo) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  SimulationReport report = Report({.dp = 2, .tp = 2, .precision = DType::kBF16}, cluster);
  // Eight products of 64 x 256 x 256 in forward and twice that in backward, without the gradient of the input.
  double product = 2.0 * 64 * 256 * 256;
  EXPECT_DOUBLE_EQ(report.size.flops, (8 + 16 - 1) * product);
  EXPECT_DOUBLE_EQ(report.size.peak_flops, 4 * cluster.device_types[0].peak.bf16);
  EXPECT_DOUBLE_EQ(report.mfu(),
                   report.size.flops / report.size.peak_flops / report.result.step_seconds);
  EXPECT_DOUBLE_EQ(report.hfu(), report.mfu());
  EXPECT_FALSE(report.size.is_tokens);
  EXPECT_EQ(report.size.tokens, 64);

  Degrees recompute{.dp = 2, .tp = 2, .precision = DType::kBF16};
  recompute.recompute = RecomputePolicy::kFull;
  SimulationReport again = Report(recompute, cluster);
  EXPECT_GT(again.hfu(), again.mfu());
  EXPECT_LE(again.hfu(), again.mfu() * (23 + 8) / 23 * (1 + 1e-12));
  EXPECT_THAT(again.plan, HasSubstr("recompute full"));
}

TEST(SimulationReport, SaysByHowMuchItDoesNotFit) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  SimulationReport report = Report({.dp = 8}, cluster);
  EXPECT_TRUE(report.fits());
  EXPECT_THAT(Screen(report), Not(HasSubstr("DOES NOT FIT")));
  cluster.device_types[0].memory = Bytes{report.result.peak_memory_bytes - 2048};
  report = Report({.dp = 8}, cluster);
  EXPECT_FALSE(report.fits());
  EXPECT_EQ(report.devices_too_small, 8);
  EXPECT_THAT(Screen(report), HasSubstr("DOES NOT FIT: 8 of 8 devices have too little memory, "
                                        "device 0 by 2.00 KiB"));
  EXPECT_EQ(ToJson(report)["feasible"], false);
}

TEST(SimulationReport, IsOneScreen) {
  SimOptions options;
  options.fold = false;
  options.slow = {{.device = 5, .factor = 3}};
  SimulationReport report =
      Report({.dp = 8, .tp = 8, .microbatches = 8}, LoadCluster("dgx-h100:8"), options);
  report.even_step_seconds = report.result.step_seconds / 2;
  ASSERT_EQ(report.result.devices.size(), 64u);
  std::string screen = Screen(report);
  EXPECT_THAT(screen, HasSubstr("device 5 (3 x): +100.0 % over"));
  EXPECT_THAT(screen, HasSubstr("... 56 more"));
  std::istringstream lines(screen);
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    EXPECT_LE(line.size(), 120u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  EXPECT_LE(count, 60) << screen;
  EXPECT_EQ(ToJson(report)["classes"].size(), 64u);
}

}  // namespace
}  // namespace heddle
