#include "program/parameter_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/testing.h"

namespace heddle {
namespace {

std::vector<size_t> GroupSizes(int64_t bucket_bytes) {
  Model model = SmallModel(8, false, 1024);  // 2 MiB of gradients each, of half a weight
  Plan plan = SmallPlan(model);
  plan.bucket_bytes = bucket_bytes;
  Program program = Lower(model, plan);
  std::vector<size_t> sizes;
  for (const ParameterGroup& group : program.stages.front().groups)
    sizes.push_back(group.slots.size());
  return sizes;
}

TEST(ParameterGroups, BecomeSmallerTowardsTheEndOfBackward) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_THAT(GroupSizes(32 * kMiB), testing::ElementsAre(4, 2, 1, 1));
  EXPECT_THAT(GroupSizes(4 * kMiB), testing::ElementsAre(2, 2, 2, 1, 1));
  EXPECT_THAT(GroupSizes(1), testing::ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
}

}  // namespace
}  // namespace heddle
