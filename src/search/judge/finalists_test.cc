#include "search/judge/finalists.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/testing.h"

namespace heddle {
namespace {

// Proposals that count how often they are judged: each time they are asked whether to be fitted to memory.
class FinalistsTest : public testing::Test {
 protected:
  Proposal Counted(int64_t microbatches) {
    Proposal out;
    out.plan =
        ExpertPlan(model_, cluster_,
                   {.dp = 2, .pp = 4, .microbatches = microbatches, .precision = DType::kBF16});
    out.from = "plan";
    out.estimate = 1e-3 * static_cast<double>(microbatches);
    out.bytes = 1e12;  // so much that it may not fit
    out.refit = [this](const std::vector<double>&) {
      ++judged_;
      return std::nullopt;
    };
    return out;
  }

  Model model_ = SmallModel(8);
  Cluster cluster_ = LoadCluster("dgx-a100:1");
  SearchProblem problem_{.model = model_, .cluster = cluster_};
  std::atomic<int> judged_ = 0;
};

TEST(EstimateErrors, AProposalMaySayThatItsErrorsDifferByMore) {
  EstimateErrors errors;
  for (int i = 0; i < 8; ++i) errors.Add({1}, 1, 1.1);
  Proposal proposal{{}, "plan", 1};
  proposal.kind = {1};
  EXPECT_NEAR(errors.AtLeast(proposal, 0.01), 0.99 * 1.1, 1e-12);
  proposal.spread = 0.06;
  EXPECT_NEAR(errors.AtLeast(proposal, 0.01), 0.94 * 1.1, 1e-12);
  // No plan of this kind was simulated: its errors may differ by half as much again.
  proposal.kind = {2};
  EXPECT_NEAR(errors.AtLeast(proposal, 0.01), 1 - 1.5 * 0.06, 1e-12);
}

TEST_F(FinalistsTest, EstimatesOfGpipeAreOfTheirOwnKind) {
  Plan plan = Counted(4).plan, other = plan;
  other.schedule = "gpipe";
  EXPECT_NE(KindOf(plan), KindOf(other));
  other.stages.resize(1);
  plan.stages.resize(1);
  EXPECT_EQ(KindOf(plan), KindOf(other));
}

TEST_F(FinalistsTest, WhatIsPreparedIsJudgedOnceAndAlike) {
  SearchResult prepared, plain;
  {
    Finalists finalists(problem_, prepared);
    finalists.Prepare(Counted(4));
    finalists.JudgeAll({Counted(2), Counted(4)});
  }
  EXPECT_EQ(judged_, 2);
  Finalists(problem_, plain).JudgeAll({Counted(2), Counted(4)});
  ASSERT_EQ(prepared.judged.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(prepared.judged[i].plan, plain.judged[i].plan);
    EXPECT_EQ(prepared.judged[i].from, plain.judged[i].from);
    EXPECT_EQ(prepared.judged[i].result.step_seconds, plain.judged[i].result.step_seconds);
  }
}

TEST_F(FinalistsTest, WhatIsPreparedAndNotWantedIsNoResult) {
  SearchResult out;
  {
    Finalists finalists(problem_, out);
    finalists.Prepare(Counted(4));
    finalists.Judge({Counted(2)}, {.most = 1, .work = 1e9});
  }
  ASSERT_EQ(out.judged.size(), 1u);
  EXPECT_EQ(out.judged[0].plan.microbatches, 2);
}

// A plan that seems to be slow once it fits is judged later, and so is what was left out because it is alike, should the
// simulation show that such plans are faster than their estimates.
TEST_F(FinalistsTest, WhatIsSlowOnceItFitsIsNotWaitedFor) {
  SearchResult out;
  Finalists finalists(problem_, out);
  finalists.JudgeAll({Counted(4)});
  double step = finalists.best_seconds();
  JudgingEffort effort{.most = 10, .work = 1000};
  Proposal slow = Counted(2), alike = Counted(2);
  for (Proposal* plan : {&slow, &alike}) {
    plan->kind = {1};
    plan->work = 100;
    plan->refit = nullptr;
  }
  slow.from = "slow";
  slow.estimate = 1.02 * step;
  slow.refit = [fitted = Counted(4), step](const std::vector<double>&) {
    Proposal out = fitted;
    out.kind = {1};
    out.from = "slow";
    out.estimate = 1.01 * step;
    out.bound = 2 * step;
    out.refit = nullptr;
    return std::optional(out);
  };
  alike.from = "alike";
  alike.estimate = 1.022 * step;  // is less by 3 % at most, as long as nothing is known of its kind
  finalists.Judge({slow, alike}, effort);
  EXPECT_EQ(out.judged.size(), 1u);
  finalists.TakeLate(effort);
  ASSERT_EQ(out.judged.size(), 3u);
  EXPECT_EQ(out.judged[1].from, "slow");
  EXPECT_EQ(out.judged[1].result.step_seconds, step);  // faster than estimated
  EXPECT_EQ(out.judged[2].from, "alike");
}

TEST(EstimateErrors, AreTakenToBeNoneUntilOneIsKnown) {
  EstimateErrors errors;
  Proposal proposal{{}, "plan", 1};
  proposal.kind = {1};
  EXPECT_LT(errors.AtLeast(proposal, 0.01), 0.971);
  errors.AssumeRight({1});
  EXPECT_TRUE(errors.IsAssumed({1}));
  EXPECT_NEAR(errors.AtLeast(proposal, 0.01), 0.98, 1e-12);
  errors.Add({1}, 1, 0.5);
  EXPECT_FALSE(errors.IsAssumed({1}));
  EXPECT_NEAR(errors.AtLeast(proposal, 0.01), 0.49, 1e-12);
}

}  // namespace
}  // namespace heddle
