#include "search/explore/pipeline_step.h"

#include <gtest/gtest.h>

#include "cluster/load.h"

namespace heddle {
namespace {

// Machines of four devices; messages that leave a machine share its uplink.
class PipelineStepTest : public testing::Test {
 protected:
  static PipelineShape ShapeOf(int devices, int microbatches) {
    PipelineShape shape{.devices = devices, .microbatches = microbatches};
    shape.times.assign(static_cast<size_t>(devices), {0.01, 0.01, 0.01});
    return shape;
  }

  const Network network_{LoadCluster("rtx4090:4")};
};

TEST_F(PipelineStepTest, HopsInsideABoxAreNotThoseBetweenBoxes) {
  PipelineLinks links(network_, /*mesh=*/2, /*stages=*/8);
  double inside = links.Transfer(0, 1e8), between = links.Transfer(1, 1e8);
  EXPECT_GT(between, 10 * inside);
  EXPECT_EQ(links.Transfers(1e8).size(), 8u);
  EXPECT_DOUBLE_EQ(links.Transfers(1e8)[2], inside);
  EXPECT_DOUBLE_EQ(links.Transfers(1e8)[3], between);
}

TEST_F(PipelineStepTest, AnUplinkCarriesWhatGoesForwardAndBack) {
  PipelineLinks links(network_, 4, 4);
  double one_way = links.Transfer(1, 1e8) - links.Transfer(1, 0);
  EXPECT_NEAR(links.Occupied(1, 1e8), 2 * one_way, 1e-9);
  // Two chunks: twice as many messages, and messages from the last stage to the first.
  EXPECT_NEAR(links.Occupied(2, 1e8), 4 * one_way, 1e-9);
}

TEST_F(PipelineStepTest, SmallMessagesLeaveTheBoundOfTheSchedule) {
  PipelineLinks links(network_, 4, 4);
  for (const ScheduleDef& schedule : AllSchedules()) {
    PipelineShape shape = ShapeOf(4, 16);
    PipelineTime time = PipelineSeconds(schedule, shape, links, 1);
    EXPECT_EQ(time.seconds, schedule.lower_bound(shape));
    EXPECT_FALSE(time.by_links);
  }
}

TEST_F(PipelineStepTest, LargeMessagesDecide) {
  PipelineLinks links(network_, 4, 4);
  for (const ScheduleDef& schedule : AllSchedules()) {
    PipelineShape shape = ShapeOf(4, 64);
    constexpr double kBytes = 1e8;
    shape.transfers = links.Transfers(kBytes);
    auto [seconds, by_links, coarse] = PipelineSeconds(schedule, shape, links, kBytes);
    EXPECT_FALSE(coarse);
    EXPECT_TRUE(by_links) << schedule.name;
    EXPECT_GE(seconds, 64 * links.Occupied(1, kBytes)) << schedule.name;
    EXPECT_GT(seconds, 1.5 * ShapeOf(4, 64).microbatches * 0.03) << schedule.name;
  }
}

// Bounds of schedules are exact where stages are alike. Otherwise the timetable is executed.
TEST_F(PipelineStepTest, StagesThatDifferAreRun) {
  PipelineLinks links(network_, 4, 4);
  for (const char* name : {"1f1b", "interleaved", "gpipe"}) {
    const ScheduleDef& schedule = *FindSchedule(name);
    PipelineShape shape{.devices = 4, .microbatches = 16};
    shape.chunks = schedule.takes_chunks ? 3 : 1;
    for (int s = 0; s < shape.stages(); ++s) {
      double time = s % 3 == 1 ? 0.01 : 0.02;
      shape.times.push_back({time, time, time});
    }
    PipelineTime time = PipelineSeconds(schedule, shape, links, 1);
    double makespan = Execute(MakeTimetable(schedule, shape), shape).makespan;
    EXPECT_NEAR(time.seconds, makespan, 1e-9 * makespan) << name;
    EXPECT_FALSE(time.coarse || time.by_links) << name;
    double bound = schedule.lower_bound(shape);
    if (shape.chunks > 1) {
      EXPECT_GT(time.seconds, 1.02 * bound);
    }
    // Nothing is executed where the bound reaches the limit.
    PipelineTime coarse = PipelineSeconds(schedule, shape, links, 1, bound);
    EXPECT_TRUE(coarse.coarse) << name;
    EXPECT_EQ(coarse.seconds, bound) << name;
  }
}

TEST_F(PipelineStepTest, ManyRoundsOfStagesThatDifferGoOnAtThePaceOfAFew) {
  PipelineLinks links(network_, 4, 4);
  const ScheduleDef& schedule = *FindSchedule("interleaved");
  PipelineShape shape{.devices = 4, .microbatches = 128};
  shape.chunks = 2;
  for (double time : {0.01, 0.02, 0.02, 0.02, 0.02, 0.02, 0.01, 0.03}) {
    shape.times.push_back({time, time, time});
  }
  double makespan = Execute(MakeTimetable(schedule, shape), shape).makespan;
  EXPECT_NEAR(PipelineSeconds(schedule, shape, links, 1).seconds, makespan, 0.002 * makespan);
}

// A few rounds and their pace stand for all micro-batches.
TEST_F(PipelineStepTest, ManyMicrobatchesGoOnAtThePaceOfAFew) {
  PipelineLinks links(network_, 4, 4);
  const ScheduleDef& schedule = *FindSchedule("1f1b");
  auto seconds = [&](int microbatches) {
    PipelineShape shape = ShapeOf(4, microbatches);
    shape.transfers = links.Transfers(2e7);
    return PipelineSeconds(schedule, shape, links, 2e7).seconds;
  };
  double pace = (seconds(64) - seconds(32)) / 32;
  EXPECT_NEAR(seconds(1024), seconds(64) + 960 * pace, 0.01 * seconds(1024));
}

}  // namespace
}  // namespace heddle
