#include "search/prices/reductions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "program/testing.h"

namespace heddle {
namespace {

// The number of groups equals that of lowering.
TEST(GradientGroups, AreThoseOfThePrograms) {
  Model model = SmallModel(32, false, 64);  // 16 KiB of gradients each
  Cluster cluster = LoadCluster("dgx-a100:1");
  GradientGroups groups(model);
  for (int64_t kibibytes : {8, 64, 128, 100'000}) {
    Plan plan = ExpertPlan(model, cluster, {.dp = 8, .precision = DType::kBF16});
    plan.bucket_bytes = kibibytes << 10;
    size_t lowered = Lower(model, plan).stages.front().groups.size();
    double bucket = static_cast<double>(plan.bucket_bytes) / 4;
    double counted = groups.PerElement(bucket, 1) * 32 * 64 * 64;
    // The last groups of a step are smaller.
    EXPECT_LE(counted, static_cast<double>(lowered) + 1e-9) << kibibytes;
    EXPECT_GE(counted, 0.6 * static_cast<double>(lowered) - 4) << kibibytes;
  }
}

// Half parameters fill a bucket later, and a device has half as many elements.
TEST(GradientGroups, PartsOfParametersFillABucketLater) {
  GradientGroups groups(SmallModel(8, false, 64));
  EXPECT_DOUBLE_EQ(groups.PerElement(4096, 1), 1.0 / 4096);
  EXPECT_DOUBLE_EQ(groups.PerElement(4096, 2), 1.0 / 4096);
  EXPECT_DOUBLE_EQ(groups.PerElement(1024, 2), 1.0 / 2048);
}

TEST(ExposedReduction, OfOneStageComesBesideItsLastBackward) {
  PipelineShape shape{.devices = 2, .microbatches = 4};
  shape.times = {{1, 1, 1}, {1, 2, 1}};
  EXPECT_DOUBLE_EQ(ExposedReduction(shape, 0, {5}), 3);
  EXPECT_DOUBLE_EQ(ExposedReduction(shape, 1, {2}), 0);
}

// The gradients of a later chunk are complete while earlier chunks still have backwards of two
// micro-batches to do.
TEST(ExposedReduction, OfLaterChunksComesBesideEarlierOnes) {
  PipelineShape shape{.devices = 2, .microbatches = 4};
  shape.chunks = 2;
  shape.times.assign(4, {1, 1, 1});
  EXPECT_DOUBLE_EQ(ExposedReduction(shape, 0, {2, 4}), 0);
  EXPECT_DOUBLE_EQ(ExposedReduction(shape, 0, {3, 0}), 1);
  EXPECT_DOUBLE_EQ(ExposedReduction(shape, 0, {1, 7}), 2);
}

}  // namespace
}  // namespace heddle
