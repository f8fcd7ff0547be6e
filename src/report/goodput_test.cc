#include "report/goodput.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Goodput, StepsDoneAgainDoNotCount) {
  // Starts at 100, trains from 102, fails in step 2 at 106.5, which is detected at 107; trains from step 1 again at
  // 109.
  std::vector<AttemptTimes> attempts = {{.training = 102, .failed = 106.5, .detected = 107},
                                        {.training = 109, .saving_seconds = 0.25}};
  std::vector<DoneStep> steps = {
      {0, 5, 2, 104}, {1, 4, 2, 106}, {1, 4, 2, 111}, {2, 3, 2, 113}, {3, 2, 2, 115}};
  Goodput goodput = GoodputOf(100, 116, attempts, steps);
  EXPECT_DOUBLE_EQ(goodput.wall_seconds, 16);
  EXPECT_DOUBLE_EQ(goodput.step_seconds, 8);
  EXPECT_DOUBLE_EQ(goodput.fraction(), 0.5);
  EXPECT_DOUBLE_EQ(goodput.start_seconds, 2);
  EXPECT_DOUBLE_EQ(goodput.detection_seconds, 0.5);
  EXPECT_DOUBLE_EQ(goodput.restart_seconds, 2);
  EXPECT_DOUBLE_EQ(goodput.again_seconds, 2.5);
  EXPECT_DOUBLE_EQ(goodput.saving_seconds, 0.25);
  EXPECT_EQ(goodput.restarts, 1);
  EXPECT_EQ(goodput.lost_steps, 1);
}

TEST(Goodput, StepsAreReadBackToTheBit) {
  DoneStep step{41, 1.0 / 3, 0.125, 1e6 + 0.5};
  std::string text = ToLine(step) + ToLine({42, 2, 3, 4}) + "43 1.5 0.1";
  std::vector<DoneStep> read = ReadDoneSteps(text);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].step, 41);
  EXPECT_EQ(read[0].loss, step.loss);
  EXPECT_EQ(read[0].end, step.end);
}

}  // namespace
}  // namespace heddle
