#include "report/timetable.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/sim_test_models.h"

namespace heddle {
namespace {

// Every half takes a second, communication takes none.
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
  // 3 (m + p - 1) = 18 seconds, two columns each.
  EXPECT_EQ(Draw({.pp = 3, .microbatches = 4}, {.columns = 36}),
            R"(    0 s                           18.0 s
d0  001122........aaaa33bbbb..cccc..dddd
d1  ..0011....aaaa22bbbb33ccccdddd....
)");
}

TEST(Timetable, WeightsApart) {
  EXPECT_EQ(Draw({.pp = 2, .microbatches = 4, .schedule = "zb-h1"}, {.columns = 13}), "");
}

TEST(Timetable, ChunksTakeTurns) {
  EXPECT_EQ(
      Draw({.pp = 2, .microbatches = 2, .chunks = 2, .schedule = "interleaved"}, {.columns = 15}),
      "");
}

TEST(Timetable, EndsOfAStepTooLongToRead) {
  EXPECT_EQ(Draw({.pp = 4, .microbatches = 64}, {.columns = 46}), "");
}

TEST(Timetable, ManyRowsAreLeftOutInTheMiddle) {
  EXPECT_EQ(Draw({.pp = 8, .microbatches = 1}, {.columns = 48, .rows = 4}), "");
}

}  // namespace
}  // namespace heddle
