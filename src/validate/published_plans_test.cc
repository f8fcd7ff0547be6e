#include "validate/published_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::HasSubstr;

PlanComparison Compared(double published, double found, double needed = 1) {
  PlanComparison at;
  at.id = "run";
  at.published = "dp 8";
  at.found = "dp 4 x tp 2";
  at.published_step = published;
  at.found_step = found;
  at.published_bytes = needed;
  at.limit = 2;
  at.fits = true;
  return at;
}

TEST(PublishedPlansTest, AReportCountsWhatIsAsFastFasterAndRaised) {
  PlanComparison unfit = Compared(1, 1), missing = Compared(1, 1);
  unfit.fits = false;
  missing.reason = "not published: micro_batch";
  PublishedPlanReport report = MakePlanReport(
      {Compared(2, 1), Compared(1, 1), Compared(1, 2), Compared(4, 2, 3), unfit, missing});
  EXPECT_EQ(report.runs.size(), 5u);
  EXPECT_EQ(report.at_least_as_fast, 3);
  EXPECT_EQ(report.faster, 2);
  EXPECT_EQ(report.raised, 1);
  EXPECT_THAT(ToText(report), HasSubstr("3 of 5 found plans are at least as fast"));
  EXPECT_THAT(ToText(report), HasSubstr("slower than published"));
  EXPECT_THAT(ToMarkdown(report),
              HasSubstr("| run | dp 8 | 2.000 | dp 4 x tp 2 | 1.000 | +100.0 % |  |"));
  Json json = ToJson(report);
  EXPECT_EQ(json["runs"][0]["speedup"], 2.0);
  EXPECT_EQ(json["runs"][3]["memory_limit_raised"], true);
  EXPECT_EQ(json["runs"][4]["feasible"], false);
}

TEST(PublishedPlansTest, TheSearchBeatsARunOnOneDevice) {
  for (const PublishedRun& run : BundledRuns()) {
    if (run.id != "megatron2020-dgx2-1b") continue;
    PlanComparison at = Compare(run);
    EXPECT_EQ(at.reason, "");
    EXPECT_TRUE(at.as_fast()) << at.found;
    EXPECT_GT(at.speedup(), 1.1);
  }
}

TEST(PublishedPlansTest, ARunThatIsNotCompleteHasAReason) {
  PublishedRun run;
  run.id = "nothing";
  EXPECT_THAT(Compare(run).reason, HasSubstr("not published"));
}

}  // namespace
}  // namespace heddle
