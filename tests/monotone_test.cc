// Compares the search without constraints with some constrained searches; monotone_slow_test.cc
// takes many problems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monotone_check.h"

namespace heddle {
namespace {

class MonotoneOnSmallModels : public testing::TestWithParam<size_t> {};

TEST_P(MonotoneOnSmallModels, NoConstraintIsFaster) {
  MonotoneCheck check(QuickMonotoneCases()[GetParam()], /*seed=*/1);
  check.Run(/*constraints=*/6, /*own=*/4);
  fmt::print("{}\n{}\n", check.Summary(), check.bytes().Summary());
  EXPECT_TRUE(check.feasible());
  EXPECT_GE(check.tried(), 6);
  EXPECT_GE(2 * check.excluding(), check.tried());
  for (const MonotoneViolation& violation : check.Violations()) ADD_FAILURE() << violation.text;
  EXPECT_EQ(check.bytes().wrongly_fits(), 0);
  EXPECT_EQ(check.bytes().within(ByteErrors::kAllowed), check.bytes().estimated())
      << check.bytes().worst();
}

INSTANTIATE_TEST_SUITE_P(All, MonotoneOnSmallModels,
                         testing::Range(size_t{0}, QuickMonotoneCases().size()),
                         [](const auto& info) {
                           return NameOf(QuickMonotoneCases()[info.param], info.param);
                         });

// A search limited to data parallelism is beaten.
TEST(MonotoneCheckItself, FindsWhatBeatsAWeakSearch) {
  MonotoneCase at{"gpt:layers=8,hidden=1024,heads=16,seq=512,vocab=512", "rtx3090:2", 8};
  at.constraints = {{.pp = 4}, {.tp = 4}};
  MonotoneCheck check(at, /*seed=*/1, "data");
  check.Run(/*constraints=*/2, /*own=*/0);
  std::vector<MonotoneViolation> violations = check.Violations();
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].kind, "constraint");
  EXPECT_GT(violations[0].loss, MonotoneCheck::kTolerance);
  EXPECT_THAT(violations[0].text,
              testing::HasSubstr("--cluster rtx3090:2 --batch 8 --searcher data\n"));
  EXPECT_THAT(violations[0].text, testing::HasSubstr("why ["));
  for (size_t i = 1; i < violations.size(); ++i) {
    EXPECT_LE(violations[i].loss, violations[i - 1].loss);
  }
}

TEST(MonotoneCheckItself, CountsErrorsOfBytes) {
  JudgedPlan judged;
  judged.plan.stages.resize(1);
  judged.plan.stages[0].recompute = {RecomputePolicy::kNone};
  judged.plan.microbatches = 4;
  judged.simulated_microbatches = 4;
  judged.fits = true;
  judged.memory_limit = 1000;
  judged.result.peak_memory_bytes = 100;
  judged.replayed = true;
  SearchResult result;
  for (double estimated : {101.0, 104.0, 91.0}) {
    judged.estimated_bytes = estimated;
    result.judged.push_back(judged);
  }
  // The whole step allocates more than the step of a few micro-batches that was judged, and
  // reserves too much.
  judged.estimated_bytes = 100;
  judged.simulated_microbatches = 2;
  result.judged.push_back(judged);
  judged.replayed = false;
  judged.simulated_microbatches = 4;
  judged.estimated_bytes = 50;
  result.judged.push_back(judged);
  ByteErrors errors(
      [](const Plan&) {
        SimResult whole;
        whole.peak_memory_bytes = 120;
        whole.reserved_memory_bytes = 1001;
        return whole;
      },
      /*nodes=*/10);
  errors.Add(result, "");
  errors.Add(result, "--dp 2");  // the same plans again
  EXPECT_EQ(errors.estimated(), 4u);
  EXPECT_EQ(errors.within(0.02), 1u);
  EXPECT_EQ(errors.within(0.05), 2u);
  EXPECT_EQ(errors.within(0.1, "ZeRO 0"), 3u);
  EXPECT_THAT(errors.worst(), testing::HasSubstr("-16.7 %"));
  EXPECT_EQ(errors.wrongly_fits(), 0);  // another plan was proposed
  std::swap(result.judged[0], result.judged[3]);
  errors.Add(result, "--dp 4");
  EXPECT_EQ(errors.wrongly_fits(), 1);
}

class ConstraintsOfPlans : public testing::Test {
 protected:
  const Model model_ =
      Analyse(LoadModel("gpt:layers=8,hidden=256,heads=4,seq=64,vocab=256,batch=32"));
  const Cluster cluster_ = LoadCluster("dgx-h100:2");
  const SearchProblem problem_{.model = model_, .cluster = cluster_};

  Plan Staged() const {
    Degrees degrees{.dp = 2, .tp = 4, .pp = 2, .microbatches = 4};
    degrees.schedule = "interleaved";
    degrees.chunks = 2;
    degrees.zero = 1;
    degrees.layers_per_stage = {1, 2, 3, 2};
    return ExpertPlan(model_, cluster_, degrees);
  }
};

TEST_F(ConstraintsOfPlans, OptionsSayAllOfAPlan) {
  EXPECT_EQ(OptionsOf(OwnDegrees(model_, Staged())),
            "--dp 2 --tp 4 --pp 2 --microbatches 4 --zero 1 --schedule interleaved --chunks 2 "
            "--recompute none --offload none --stages 1,2,3,2");
}

TEST_F(ConstraintsOfPlans, DegreesOfOtherAxesAreNotSaid) {
  Degrees degrees{.dp = 2, .tp = 2, .cp = 2};
  FixedDegrees own = OwnDegrees(model_, ExpertPlan(model_, cluster_, degrees));
  EXPECT_FALSE(own.dp || own.tp);
  EXPECT_EQ(own.pp, 1);
}

TEST_F(ConstraintsOfPlans, APlanIsExcludedByWhatItIsNot) {
  FixedDegrees own = OwnDegrees(model_, Staged());
  EXPECT_FALSE(Excludes({.dp = 2, .pp = 2}, own));
  EXPECT_TRUE(Excludes({.dp = 2, .pp = 4}, own));
  EXPECT_TRUE(Excludes({.zero = 0}, own));
  FixedDegrees stages{.pp = 2, .chunks = 2};
  stages.layers_per_stage = {2, 2, 2, 2};
  EXPECT_TRUE(Excludes(stages, own));
}

TEST_F(ConstraintsOfPlans, DrawnOnesAreDistinctAndExcludeAsAsked) {
  FixedDegrees own = OwnDegrees(model_, Staged());
  ConstraintDrawer drawer(problem_, own, 1), again(problem_, own, 1);
  std::set<std::string> seen;
  for (int i = 0; i < 40; ++i) {
    FixedDegrees fixed = drawer.Draw(i % 3 != 2);
    EXPECT_EQ(OptionsOf(fixed), OptionsOf(again.Draw(i % 3 != 2)));
    EXPECT_TRUE(seen.insert(OptionsOf(fixed)).second) << OptionsOf(fixed);
    EXPECT_EQ(Excludes(fixed, own), i % 3 != 2) << OptionsOf(fixed);
  }
}

}  // namespace
}  // namespace heddle
