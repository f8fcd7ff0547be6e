#include "search/judge/judge.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/testing.h"

namespace heddle {
namespace {

// A plan that was judged by two of its four micro-batches.
class CheckWholeStepTest : public testing::Test {
 protected:
  JudgedPlan Shortened(int64_t reserved, int64_t limit) {
    JudgedPlan out;
    out.plan = ExpertPlan(model_, cluster_,
                          {.dp = 2, .pp = 4, .microbatches = 4, .precision = DType::kBF16});
    out.fits = true;
    out.simulated_microbatches = 2;
    out.result.reserved_memory_bytes = reserved;
    out.memory_limit = limit;
    return out;
  }
  // What the whole step reserves on the device that needs most.
  int64_t Whole() {
    JudgedPlan judged = Shortened(1, 1);
    CheckWholeStep(problem_, judged);
    return judged.reserved();
  }

  Model model_ = SmallModel(8);
  Cluster cluster_ = LoadCluster("dgx-a100:1");
  SearchProblem problem_{.model = model_, .cluster = cluster_};
};

TEST_F(CheckWholeStepTest, WhatTheWholeStepReservesDecides) {
  int64_t whole = Whole();
  EXPECT_GT(whole, 1);
  JudgedPlan small = Shortened(whole - 1, whole - 1), enough = Shortened(whole - 1, whole);
  std::vector<double> reserved = CheckWholeStep(problem_, small);
  ASSERT_EQ(reserved.size(), 4u);  // the devices of the pipeline
  EXPECT_EQ(*std::max_element(reserved.begin(), reserved.end()), static_cast<double>(whole));
  EXPECT_FALSE(small.fits);
  EXPECT_EQ(small.reserved(), whole);
  EXPECT_FALSE(CheckWholeStep(problem_, enough).empty());
  EXPECT_TRUE(enough.fits);
  EXPECT_EQ(enough.reserved(), whole);
}

TEST_F(CheckWholeStepTest, WhatIsKnownIsNotLoweredAgain) {
  int64_t whole = Whole();
  JudgedPlan with_room = Shortened(whole / 2, whole - 1), all = Shortened(whole - 1, whole - 1);
  all.simulated_microbatches = all.plan.microbatches;
  JudgedPlan unfit = Shortened(whole - 1, whole - 1);
  unfit.fits = false;
  for (JudgedPlan* judged : {&with_room, &all, &unfit}) {
    JudgedPlan before = *judged;
    EXPECT_TRUE(CheckWholeStep(problem_, *judged).empty());
    EXPECT_EQ(judged->fits, before.fits);
    EXPECT_EQ(judged->reserved(), before.reserved());
  }
}

}  // namespace
}  // namespace heddle
