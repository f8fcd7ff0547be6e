// Verify on broken timetables, Execute on one reckoned by hand, and the pictures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "schedule/schedule.h"

namespace heddle {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PipelineShape kShape{.devices = 2, .microbatches = 2};

Timetable Good(std::string_view name) { return MakeTimetable(*FindSchedule(name), kShape); }

//   d0  F0 F1 .  B0 W0 B1 W1
//   d1  .  F0 B0 F1 B1 W0 W1
Timetable Split() { return Good("zb-h1"); }

void Erase(std::vector<Task>& tasks, const Task& task) { ASSERT_EQ(std::erase(tasks, task), 1u); }

void Swap(std::vector<Task>& tasks, const Task& a, const Task& b) {
  const auto i = std::find(tasks.begin(), tasks.end(), a),
             j = std::find(tasks.begin(), tasks.end(), b);
  ASSERT_TRUE(i != tasks.end() && j != tasks.end());
  std::swap(*i, *j);
}

constexpr Half F = Half::kF, B = Half::kB, W = Half::kW, BW = Half::kBW;

TEST(Verify, DroppedTasks) {
  Timetable timetable = Split();
  Erase(timetable[1], {F, 1, 1});
  Erase(timetable[0], {W, 0, 0});
  EXPECT_THAT(Verify(timetable, kShape), ElementsAre("W of stage 0, microbatch 0 is missing",
                                                     "F of stage 1, microbatch 1 is missing"));
  timetable = Good("1f1b");
  Erase(timetable[0], {BW, 0, 1});
  EXPECT_THAT(Verify(timetable, kShape), ElementsAre("B of stage 0, microbatch 1 is missing",
                                                     "W of stage 0, microbatch 1 is missing"));
}

TEST(Verify, DoubledTasks) {
  Timetable timetable = Split();
  timetable[0].push_back({W, 0, 1});
  EXPECT_THAT(Verify(timetable, kShape), ElementsAre("W of stage 0, microbatch 1 runs 2 times"));
  timetable = Good("gpipe");
  timetable[1].push_back({BW, 1, 0});
  EXPECT_THAT(Verify(timetable, kShape), ElementsAre("BW of stage 1, microbatch 0 runs 2 times"));
}

TEST(Verify, FusedBesideSplit) {
  Timetable timetable = Good("1f1b");
  timetable[0].push_back({W, 0, 1});
  EXPECT_THAT(Verify(timetable, kShape), ElementsAre("stage 0, microbatch 1 has BW beside B or W"));
}

TEST(Verify, WrongDevice) {
  Timetable timetable = Split();
  Erase(timetable[0], {W, 0, 1});
  timetable[1].push_back({W, 0, 1});
  EXPECT_THAT(Verify(timetable, kShape),
              ElementsAre("device 1, task 6: W of stage 0, microbatch 1 belongs to device 0"));
}

TEST(Verify, NoSuchTask) {
  Timetable timetable = Split();
  timetable[0].push_back({F, 2, 0});
  timetable[0].push_back({F, 0, -1});
  timetable[1].push_back({static_cast<Half>(9), 1, 0});
  EXPECT_THAT(Verify(timetable, kShape),
              ElementsAre("device 0, task 6: F of stage 2, microbatch 0 does not exist",
                          "device 0, task 7: F of stage 0, microbatch -1 does not exist",
                          "device 1, task 6: ? of stage 1, microbatch 0 does not exist"));
}

TEST(Verify, NumberOfDevices) {
  Timetable timetable = Split();
  timetable.pop_back();
  EXPECT_THAT(Verify(timetable, kShape), ElementsAre("there are lists for 1 devices, must be 2"));
  EXPECT_THAT(Verify({}, kShape), ElementsAre("there are lists for 0 devices, must be 2"));
}

TEST(Verify, BackwardBeforeForward) {
  Timetable timetable = Split();
  Swap(timetable[1], {F, 1, 0}, {B, 1, 0});
  EXPECT_THAT(
      Verify(timetable, kShape),
      Contains("device 1, task 0: B of stage 1, microbatch 0 waits for ever for F of stage 1, "
               "microbatch 0"));
}

TEST(Verify, WeightBeforeBackward) {
  Timetable timetable = Split();
  Swap(timetable[0], {B, 0, 1}, {W, 0, 1});
  EXPECT_THAT(
      Verify(timetable, kShape),
      ElementsAre("device 0, task 4: W of stage 0, microbatch 1 waits for ever for B of stage 0, "
                  "microbatch 1"));
}

// Each device could run its list alone, but they wait for each other.
TEST(Verify, Deadlock) {
  Timetable timetable = Good("1f1b");
  timetable[0] = {{F, 0, 0}, {BW, 0, 0}, {F, 0, 1}, {BW, 0, 1}};
  timetable[1] = {{F, 1, 0}, {F, 1, 1}, {BW, 1, 0}, {BW, 1, 1}};
  EXPECT_THAT(Verify(timetable, kShape),
              ElementsAre("device 0, task 1: BW of stage 0, microbatch 0 waits for ever for B of "
                          "stage 1, microbatch 0",
                          "device 1, task 1: F of stage 1, microbatch 1 waits for ever for F of "
                          "stage 0, microbatch 1"));
}

TEST(Verify, ChunksOfOneDeviceDependOnEachOther) {
  const PipelineShape shape{.devices = 1, .chunks = 2};
  Timetable timetable{{{F, 0, 0}, {F, 1, 0}, {BW, 1, 0}, {BW, 0, 0}}};
  EXPECT_TRUE(Verify(timetable, shape).empty());
  std::swap(timetable[0][2], timetable[0][3]);
  EXPECT_THAT(Verify(timetable, shape), Contains(HasSubstr("task 2: BW of stage 0")));
}

// Any single exchange of two tasks is either refused or can be executed.
TEST(Verify, EveryExchangeIsJudged) {
  int refused = 0, kept = 0;
  for (size_t d = 0; d < 2; ++d) {
    for (size_t i = 0; i < 6; ++i) {
      for (size_t j = i + 1; j < 6; ++j) {
        Timetable timetable = Split();
        std::swap(timetable[d][i], timetable[d][j]);
        if (Verify(timetable, kShape).empty()) {
          EXPECT_GE(Execute(timetable, kShape).makespan, 7);
          ++kept;
        } else {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(kept, 2);
}

TEST(Execute, ReckonedByHand) {
  PipelineShape shape = kShape;
  shape.times = {{1, 2, 3}, {4, 5, 6}};
  shape.transfer = .5;
  const Execution run = Execute(Split(), shape);
  // F0 F1 | B0 after B0 of device 1, and so on.
  EXPECT_THAT(run.start[1], ElementsAre(1.5, 5.5, 10.5, 14.5, 19.5, 25.5));
  EXPECT_THAT(run.start[0], ElementsAre(0, 1, 11, 13, 20, 22));
  EXPECT_EQ(run.makespan, 31.5);
  EXPECT_DOUBLE_EQ(run.bubble, 1 - (2 * 6 + 2 * 15) / (2 * 31.5));
  EXPECT_THAT(run.idle, ElementsAre(25 - 12, 0));
  EXPECT_THAT(run.peak_in_flight, ElementsAre(2, 1));
  EXPECT_THAT(run.peak_weight_pending, ElementsAre(2, 2));
}

std::string PictureOf(std::string_view name, const PipelineShape& shape) {
  return Picture(MakeTimetable(*FindSchedule(name), shape), shape);
}

// Those in the comments of the schedules.
TEST(Picture, OfEachSchedule) {
  const PipelineShape small{.devices = 2, .microbatches = 3};
  EXPECT_EQ(PictureOf("gpipe", small),
            "d0  F0  F1  F2  .   .   .   BW0---- BW1---- BW2----\n"
            "d1  .   F0  F1  F2  BW0---- BW1---- BW2----\n");
  EXPECT_EQ(PictureOf("1f1b", small),
            "d0  F0  F1  .   .   BW0---- F2  BW1---- .   BW2----\n"
            "d1  .   F0  BW0---- F1  BW1---- F2  BW2----\n");
  EXPECT_EQ(PictureOf("interleaved", {.devices = 2, .chunks = 2, .microbatches = 2}),
            "d0  F0.0  F1.0  F0.1  F1.1  .     .     BW0.1------ .     BW1.1------ BW0.0------ "
            "BW1.0------\n"
            "d1  .     F0.0  F1.0  F0.1  BW0.1------ F1.1  BW1.1------ BW0.0------ BW1.0------\n");
  const PipelineShape larger{.devices = 3, .microbatches = 5};
  EXPECT_EQ(PictureOf("zb-h1", larger),
            "d0  F0 F1 F2 .  .  B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4\n"
            "d1  .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 F4 B3 W2 B4 W3 W4\n"
            "d2  .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4\n");
  EXPECT_EQ(PictureOf("zb", larger),
            "d0  F0 F1 F2 F3 F4 B0 W0 B1 W1 B2 W2 B3 W3 B4 W4\n"
            "d1  .  F0 F1 F2 B0 F3 B1 F4 B2 W0 B3 W1 B4 W2 W3 W4\n"
            "d2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 W0 W1 W2 W3 W4\n");
}

TEST(Picture, UnlikeTimes) {
  PipelineShape shape{.devices = 1, .microbatches = 1, .times = {{2, 4, 0}}};
  EXPECT_EQ(PictureOf("1f1b", shape), "d0  F0  BW0----\n");
  shape.times = {{1e9, 1, 0}};  // too short for a column
  EXPECT_THAT(PictureOf("1f1b", shape), ::testing::Not(HasSubstr("BW")));
  EXPECT_LT(PictureOf("1f1b", shape).size(), 5000u);
  shape.times = {{0, 0, 0}};
  EXPECT_EQ(PictureOf("1f1b", shape), "d0\n");
}

}  // namespace
}  // namespace heddle
