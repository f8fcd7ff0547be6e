#include "validate/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "validate/configure.h"
#include "validate/report.h"
#include "validate/testing.h"

namespace heddle {
namespace {

// Plans and prices depend on the fields of a run and never on its id.
TEST(PredictTest, NoConstantBelongsToARun) {
  for (const PublishedRun& run : BundledRuns()) {
    PublishedRun other = run;
    other.id = "another";
    EXPECT_EQ(&StackOf(other), &StackOf(run)) << run.id;
    if (!IsComplete(run)) continue;
    EXPECT_EQ(ModelExpression(other, StackOf(other), 8), ModelExpression(run, StackOf(run), 8));
  }
  for (const char* id : {"korthikanti-22b-full", "torchtitan-8b-8gpu-compile", "pythia-70m"}) {
    PublishedRun other = RunNamed(id);
    other.id = "another";
    Prediction one = Predict(RunNamed(id)), two = Predict(other);
    ASSERT_TRUE(one.predicted.has_value());
    EXPECT_EQ(*one.predicted, *two.predicted) << id;
  }
}

TEST(PredictTest, SmallRunsAreCloseToWhatWasPublished) {
  for (const char* id : {"korthikanti-22b-full", "korthikanti-22b-selective",
                         "megatron-sc21-t1-1.7b", "megatron-sc21-t1-3.6b"}) {
    Prediction run = Predict(RunNamed(id));
    ASSERT_TRUE(run.error().has_value()) << id << ": " << run.reason;
    EXPECT_LE(std::abs(*run.error()), 0.06) << id;
    EXPECT_NEAR(run.critical.total(), *run.predicted, 1e-6 * *run.predicted) << id;
  }
}

TEST(PredictTest, WhatIsMissingIsSaid) {
  Prediction run = Predict(RunNamed("glm-130b"));
  EXPECT_FALSE(run.predicted.has_value());
  EXPECT_EQ(run.reason, "not published: micro_batch");
}

TEST(PredictTest, TheReportHasARowPerRun) {
  std::vector<PublishedRun> runs = {RunNamed("korthikanti-22b-full"), RunNamed("glm-130b")};
  ValidationReport report = MakeReport(PredictAll(runs, 2));
  Json json = ToJson(report);
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][0]["id"], "korthikanti-22b-full");
  EXPECT_TRUE(json["runs"][0]["error"].is_number());
  EXPECT_TRUE(json["runs"][1]["error"].is_null());
  EXPECT_TRUE(json["runs"][1].contains("reason"));
  EXPECT_EQ(json["complete"], 1);
  EXPECT_NE(ToText(report).find("korthikanti2022-table5"), std::string::npos);
}

}  // namespace
}  // namespace heddle
