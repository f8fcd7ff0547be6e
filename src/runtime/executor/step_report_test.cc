// What updates get to know of the end of a step.
#include "runtime/executor/step_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor Sums(double loss, double squares) { return at::tensor({loss, squares}, at::kDouble); }

void NeverStops(double) { FAIL() << "the loss is finite"; }

TEST(StepReport, ScalesGradientsToTheLargestNorm) {
  StepReport report(at::kCPU, {.clip_norm = 1}, NeverStops);
  report.BeginStep(0.5);
  report.Finish(Sums(3, 16));
  EXPECT_EQ(report.factors().lr.item<double>(), 0.5);
  EXPECT_NEAR(report.factors().scale.item<double>(), 0.25, 1e-6);
  StepRecord record = report.Read();
  EXPECT_EQ(record.loss, 3);
  EXPECT_EQ(record.grad_norm, 4);
  EXPECT_FALSE(record.skipped);
}

TEST(StepReport, SkipsAStepWhoseGradientsOverflowAndHalvesTheLossScale) {
  StepReport report(at::kCPU, {.scales_loss = true}, NeverStops);
  double scale = report.loss_scale()->state().scale;
  report.BeginStep(1);
  report.Finish(Sums(3, kInfinity));
  EXPECT_EQ(report.factors().skip.item<double>(), 1);
  StepRecord record = report.Read();
  EXPECT_TRUE(record.skipped);
  EXPECT_EQ(record.loss_scale, scale / 2);
}

TEST(StepReport, StopsWhereTheLossIsNotFinite) {
  StepReport report(at::kCPU, {}, [](double) { throw std::runtime_error("stopped"); });
  report.BeginStep(1);
  EXPECT_THROW(report.Finish(Sums(kInfinity, 1)), std::runtime_error);
}

TEST(StepReport, OfAForwardProgramReportsAnyLoss) {
  StepReport report(at::kCPU, {.forward_only = true}, NeverStops);
  report.BeginStep(1);
  report.Finish(Sums(kInfinity, 0));
  EXPECT_TRUE(std::isinf(report.Read().loss));
}

TEST(StepReport, GroupsAfterTheFirstBadOneAreNotUpdatedEarly) {
  StepReport report(at::kCPU, {.spills = true}, NeverStops);
  report.BeginStep(1);
  report.CountEarly(at::full({}, 4, at::kDouble));
  EXPECT_EQ(report.factors().skip.item<double>(), 0);
  report.CountEarly(at::full({}, kInfinity, at::kDouble));
  EXPECT_EQ(report.factors().skip.item<double>(), 1);
  report.CountEarly(at::full({}, 1, at::kDouble));
  EXPECT_EQ(report.factors().skip.item<double>(), 1);
}

}  // namespace
}  // namespace heddle
