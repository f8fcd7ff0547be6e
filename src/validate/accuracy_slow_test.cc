// The accuracy of the simulator over all published runs.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "validate/report.h"

namespace heddle {
namespace {

TEST(AccuracySlowTest, OverAllPublishedRuns) {
  ValidationReport report =
      MakeReport(PredictAll(BundledRuns(), static_cast<int>(std::thread::hardware_concurrency())));
  EXPECT_EQ(report.complete, 181);
  EXPECT_GE(report.predicted, 175);
  EXPECT_LE(report.mean, 0.10);
  EXPECT_GE(report.memory_runs, 30);
  EXPECT_LE(report.memory_mean, 0.08);
  double sum = 0, most = 0;
  int count = 0;
  for (const Prediction& run : report.runs) {
    bool of = run.source == "narayanan2021-table1" || run.source == "korthikanti2022-table5";
    if (!of || !run.error()) continue;
    ++count;
    sum += std::abs(*run.error());
    most = std::max(most, std::abs(*run.error()));
  }
  EXPECT_EQ(count, 13);
  EXPECT_LE(sum / count, 0.05);
  EXPECT_LE(most, 0.12);
}

}  // namespace
}  // namespace heddle
