#include "search/judge/bucket_sizes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/testing.h"

namespace heddle {
namespace {

constexpr int64_t kMiB = 1 << 20;

class BucketSizesTest : public testing::Test {
 protected:
  JudgedPlan Judged(int zero, double step) const {
    JudgedPlan out;
    out.plan = ExpertPlan(model_, cluster_, {.dp = 8, .zero = zero, .precision = DType::kBF16});
    out.from = "dp 8";
    out.fits = true;
    out.result.step_seconds = step;
    out.result.exposed_communication = 0.3;
    return out;
  }

  // Judges all proposals; `step` gives the step by bucket size.
  template <typename Step>
  std::vector<JudgedPlan> Searched(std::vector<JudgedPlan> judged, const Step& step) {
    BucketSizes sizes(task_);
    while (true) {
      std::vector<Proposal> plans = sizes.Next(judged, judged.front().result.step_seconds);
      if (plans.empty()) return judged;
      for (Proposal& plan : plans) {
        JudgedPlan at = judged.front();
        at.plan = plan.plan;
        at.from = plan.from;
        at.result.step_seconds = step(plan.plan.bucket_bytes);
        judged.push_back(std::move(at));
      }
      std::stable_sort(judged.begin(), judged.end(), Better);
    }
  }

  Model model_ = SmallModel(8);
  Cluster cluster_ = LoadCluster("dgx-a100:1");
  SearchProblem problem_{.model = model_, .cluster = cluster_};
  SearchTask task_{problem_};
};

TEST_F(BucketSizesTest, ClimbsToTheSizeWithTheShortestStep) {
  for (int64_t best : {2 * kMiB, 16 * kMiB, 256 * kMiB}) {
    auto step = [&](int64_t bytes) {
      return 1 + 0.1 * std::abs(std::log2(static_cast<double>(bytes) / static_cast<double>(best)));
    };
    JudgedPlan first = Judged(1, 0);
    first.result.step_seconds = step(first.plan.bucket_bytes);
    std::vector<JudgedPlan> judged = Searched({first}, step);
    EXPECT_EQ(judged.front().plan.bucket_bytes, best);
    EXPECT_EQ(judged.front().from, "dp 8, buckets of " + std::to_string(best / kMiB) + " MiB");
    EXPECT_TRUE(DifferInBucketsAlone(judged.front().plan, first.plan));
    EXPECT_LE(judged.size(), 12u);
  }
}

TEST_F(BucketSizesTest, StopsEarlyWhereTheSizeHardlyMatters) {
  EXPECT_EQ(Searched({Judged(1, 1)}, [](int64_t) { return 1.001; }).size(), 3u);
}

TEST_F(BucketSizesTest, PlansWithoutBucketsAndPlansThatAreFarAreLeft) {
  JudgedPlan quick = Judged(0, 1), slow = Judged(1, 2);
  quick.result.exposed_communication = 0;  // no exposed communication
  EXPECT_TRUE(BucketSizes(task_).Next({quick, slow}, 1).empty());
  EXPECT_TRUE(BucketSizes(task_).Next({Judged(3, 1)}, 1).empty());
}

// ZeRO 1 and 2 are equivalent with one micro-batch.
TEST_F(BucketSizesTest, OfPlansWithTheSameStepOneIsEnough) {
  EXPECT_EQ(BucketSizes(task_).Next({Judged(1, 1), Judged(2, 1)}, 1).size(), 2u);
  EXPECT_EQ(BucketSizes(task_).Next({Judged(1, 1), Judged(0, 1.1)}, 1).size(), 4u);
}

}  // namespace
}  // namespace heddle
