#include "sim/fabric.h"

#include <gtest/gtest.h>

#include <set>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/sim_test_models.h"

namespace heddle {
namespace {

std::set<int> ReductionChannels(const Program& program, const Fabric& fabric, size_t run) {
  std::set<int> channels;
  for (size_t i = 0; i < program.runs[run].instructions.size(); ++i) {
    bool reduces = program.runs[run].instructions[i].op == Opcode::kReduceGradients;
    if (reduces) channels.insert(fabric.channel_of[run][i]);
  }
  return channels;
}

// The last chunk reduces first: the communicator must not depend on which stage uses it first.
TEST(Fabric, ChunksOfADeviceShareACommunicator) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  Model model = Analyse(Layers(8, 8));
  Degrees degrees{.dp = 2, .pp = 2, .microbatches = 2};
  degrees.schedule = "interleaved";
  degrees.chunks = 2;
  Plan plan = ExpertPlan(model, cluster, degrees);
  Program program = Lower(model, plan);
  ASSERT_EQ(program.stages.size(), 4u);
  Fabric fabric = FindFabric(program, Network(cluster), {});
  std::set<int> all;
  for (size_t run = 0; run < program.runs.size(); ++run) {
    std::set<int> channels = ReductionChannels(program, fabric, run);
    EXPECT_EQ(channels.size(), 1u) << "run " << run;
    all.insert(channels.begin(), channels.end());
  }
  EXPECT_EQ(all.size(), 2u);  // one for each device of the pipeline
}

}  // namespace
}  // namespace heddle
