#include "report/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

FleetResult TwoDevices() {
  FleetResult result;
  result.makespan = 8;
  result.busy = {6, 8};
  result.finished = {4, 8};
  result.spans = {{0, 0, 0, 4}, {1, 1, 0, 3}, {1, 0, 3, 4}, {1, 1, 4, 8}, {0, 2, 4, 6}};
  return result;
}

TEST(FleetReportTest, TimetableShowsWhoHasMost) {
  EXPECT_EQ(FleetTimetable(TwoDevices(), 8), "  d0   aaaacc..\n  d1   bbbabbbb\n");
  // With half the columns, both jobs have the same part of 2-4 s on d1, and the first is shown.
  EXPECT_EQ(FleetTimetable(TwoDevices(), 4), "  d0   aac.\n  d1   babb\n");
  EXPECT_EQ(FleetTimetable(TwoDevices(), 4, 1), "  d0   aac.\n  and 1 more device\n");
  EXPECT_EQ(FleetTimetable({}), "");
}

TEST(FleetReportTest, Letters) {
  EXPECT_EQ(LetterOf(0), 'a');
  EXPECT_EQ(LetterOf(26), 'A');
  EXPECT_EQ(LetterOf(61), '9');
  EXPECT_EQ(LetterOf(62), '#');
}

TEST(FleetReportTest, ScreenAndJson) {
  FleetReport report;
  report.device = "chip";
  report.policy = "lrtf";
  report.devices.devices = 2;
  report.result = TwoDevices();
  report.bound = {.longest_job = 7, .work = 6};
  report.jobs = {{.name = "a", .steps = 4, .finished = 4},
                 {.name = "b", .steps = 2, .finished = 8}};
  std::string screen = Screen(report);
  EXPECT_THAT(screen, ::testing::HasSubstr("2 jobs on 2 x chip\n"));
  EXPECT_THAT(screen,
              ::testing::HasSubstr("8.00 s (simulated), +14.3 % over the lower bound of 7.00 s"));
  EXPECT_THAT(screen, ::testing::HasSubstr("at work 87.5 %"));
  Json json = ToJson(report);
  EXPECT_EQ(json["makespan_seconds"], 8);
  EXPECT_EQ(json["lower_bound_seconds"], 7);
  EXPECT_EQ(json["utilisation"], 0.875);
  EXPECT_EQ(json["jobs"][1]["finished_seconds"], 8);
  EXPECT_FALSE(json.contains("several"));
}

}  // namespace
}  // namespace heddle
