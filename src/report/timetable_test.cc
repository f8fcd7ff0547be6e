#include "report/timetable.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/sim_test_models.h"

namespace heddle {
namespace {

// Every half takes one second, communication takes no time.
std::string Draw(const Degrees& degrees, const TimetableOptions& options) {
  int64_t layers = 2 * degrees.pp * degrees.chunks;
  Model model = Analyse(Layers(static_cast<int>(layers), degrees.microbatches));
  Cluster cluster = LoadCluster("local:" + std::to_string(degrees.pp));
  Plan plan = ExpertPlan(model, cluster, degrees);
  for (Stage& stage : plan.stages) stage.times = {1, 1, 1};
  Program program = Lower(model, plan);
  Prepared prepared = Prepare(program, cluster, {});
  SetUnitTimes(program, prepared, 1, 1, 1);
  return TimetableOf(program, prepared, Execute(prepared), options);
}

TEST(Timetable, OneForwardOneBackward) {
  // 3 (m + p - 1) = 18 seconds, two columns per second.
  EXPECT_EQ(Draw({.pp = 3, .microbatches = 4}, {.columns = 36}),
            R"(    0 s                           18.0 s
d0  001122........aaaa33bbbb..cccc..dddd
d1  ..0011....aaaa22bbbb33cccc..dddd....
d2  ....00aaaa11bbbb22cccc33dddd........
    0-9 forward, a-j backward, . idle
)");
}

TEST(Timetable, WeightsApart) {
  EXPECT_EQ(Draw({.pp = 2, .microbatches = 4, .schedule = "zb-h1"}, {.columns = 13}),
            R"(    0 s    13.0 s
d0  01.aA2bB3cCdD
d1  .0a1bA2cB3dCD
    0-9 forward, a-j backward, A-J weights' gradients, . idle
)");
}

TEST(Timetable, ChunksTakeTurns) {
  EXPECT_EQ(
      Draw({.pp = 2, .microbatches = 2, .chunks = 2, .schedule = "interleaved"}, {.columns = 15}),
      R"(    0 s      15.0 s
d0  0101..aa.bbaabb
d1  .010aa1bbaabb..
    0-9 forward, a-j backward, . idle
)");
}

TEST(Timetable, EndsOfAStepTooLongToRead) {
  EXPECT_EQ(Draw({.pp = 4, .microbatches = 64}, {.columns = 46}),
            R"(    0 s           20.0 s      3 min 01 s 3 min 21 s
d0  0123......aa4bb5cc6d  ~~  hh1ii2jj3aa.bb.cc.dd
d1  .012....aa3bb4cc5dd6  ~~  0ii1jj2aa3bb.cc.dd..
d2  ..01..aa2bb3cc4dd5ee  ~~  i0jj1aa2bb3cc.dd....
d3  ...0aa1bb2cc3dd4ee5f  ~~  jj0aa1bb2cc3dd......
    0-9 forward, a-j backward, . idle
)");
}

TEST(Timetable, ManyRowsAreLeftOutInTheMiddle) {
  EXPECT_EQ(Draw({.pp = 6, .microbatches = 2}, {.columns = 21, .rows = 4}),
            R"(    0 s            21.0 s
d0  01..............aa.bb
d1  .01...........aa.bb..
...  2 more
d4  ....01..aa.bb........
d5  .....0aa1bb..........
    0-9 forward, a-j backward, . idle
)");
}

// With exposed communication, recomputation and real prices, the drawn columns add up to the fractions of the summary.
TEST(Timetable, SharesAreThoseOfTheSummary) {
  Model model = Analyse(Layers(8, 64, 1024));
  Cluster cluster = LoadCluster("dgx-h100:2");
  Degrees degrees{.dp = 2, .tp = 4, .pp = 2, .microbatches = 4};
  degrees.recompute = RecomputePolicy::kFull;
  Program program = Lower(model, ExpertPlan(model, cluster, degrees));
  Simulation simulation = RunSimulation(program, cluster, {});
  size_t columns = 2000;
  std::istringstream lines(
      TimetableOf(program, simulation.prepared, simulation.timeline, {.columns = columns}));
  std::string line;
  std::getline(lines, line);  // the scale
  for (const DeviceResult& device : simulation.result.devices) {
    std::getline(lines, line);
    std::string name = "d" + std::to_string(device.device);
    ASSERT_TRUE(line.starts_with(name + " ")) << line;
    double exposed = 0, idle = 0;
    for (char at : line.substr(name.size())) {
      exposed += at == '#';
      idle += at == '.';
    }
    double width = simulation.result.step_seconds / static_cast<double>(columns);
    EXPECT_NEAR(exposed * width, device.exposed, 0.05 * simulation.result.step_seconds);
    EXPECT_NEAR(idle * width, device.bubble, 0.05 * simulation.result.step_seconds);
    EXPECT_NE(line.find('#'), std::string::npos);
    EXPECT_NE(line.find('r'), std::string::npos);
  }
  std::getline(lines, line);
  EXPECT_NE(line.find("r recomputed forward"), std::string::npos) << line;
}

}  // namespace
}  // namespace heddle
