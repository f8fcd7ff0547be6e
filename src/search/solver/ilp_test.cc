#include "search/solver/ilp.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "search/solver/brute.h"
#include "search/solver/random_problem.h"

namespace heddle {
namespace {

// The optimum within a limit on bytes, by enumeration.
Solution BestWithin(const Problem& problem, const Weights& weights, double limit) {
  Solution best;
  best.objective = kForbidden;
  std::vector<int> choice(problem.unary.size(), 0);
  while (true) {
    Cost cost = Evaluate(problem, choice);
    double objective = cost.Weighted(weights);
    if (cost.bytes <= limit && objective < best.objective) best = {objective, cost, choice};
    size_t v = 0;
    while (v < choice.size() && static_cast<size_t>(++choice[v]) == problem.unary[v]->size()) {
      choice[v++] = 0;
    }
    if (v == choice.size()) return best;
  }
}

void ExpectBest(const IlpResult& got, double want) {
  EXPECT_TRUE(got.proven);
  ASSERT_EQ(got.solution.has_value(), want < kForbidden);
  if (want == kForbidden) return;
  EXPECT_NEAR(got.solution->objective, want, 1e-9 * want);
  EXPECT_NEAR(got.bound, want, 1e-6 * want);
}

class Ilp : public testing::Test {
  void SetUp() override {
    if (!HasIlp()) GTEST_SKIP() << "built without CBC";
  }
};

TEST_F(Ilp, EqualsBruteForceOnRandomProblems) {
  Random rng(11);
  int infeasible = 0;
  for (int round = 0; round < 200; ++round) {
    Problem problem = RandomProblem(rng, 1 + Below(rng, 9));
    Weights weights{1, round % 2 == 0 ? 1.0 : 0.25, round % 3 == 0 ? 0.5 : 0};
    double want = Brute(problem, weights).objective;
    ExpectBest(SolveIlp(problem, {.weights = weights}), want);
    if (want == kForbidden) ++infeasible;
  }
  EXPECT_LT(infeasible, 100);
}

TEST_F(Ilp, ForbiddenChoices) {
  Random rng(12);
  int infeasible = 0;
  for (int round = 0; round < 100; ++round) {
    Problem problem = RandomProblem(rng, 1 + Below(rng, 6));
    for (UnaryRef& unary : problem.unary) {
      Unary some = *unary;
      for (double& seconds : some.seconds) seconds = Below(rng, 4) == 0 ? kForbidden : seconds;
      unary = std::make_shared<Unary>(some);
    }
    double want = Brute(problem).objective;
    ExpectBest(SolveIlp(problem), want);
    if (want == kForbidden) ++infeasible;
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 90);
}

TEST_F(Ilp, MemoryLimits) {
  Random rng(13);
  int tighter = 0;
  for (int round = 0; round < 150; ++round) {
    Problem problem = RandomProblem(rng, 1 + Below(rng, 7));
    double least = 0, most = 0;
    for (const UnaryRef& unary : problem.unary) {
      least += *std::min_element(unary->bytes.begin(), unary->bytes.end());
      most += *std::max_element(unary->bytes.begin(), unary->bytes.end());
    }
    // Bytes are multiples of 1/997, so no choice is close to the limit.
    double limit = least + Uniform(rng) * (most - least);
    limit = (std::floor(limit * 997) + 0.5) / 997;
    Solution want = BestWithin(problem, {}, limit);
    ExpectBest(SolveIlp(problem, {.memory_limit = limit}), want.objective);
    if (want.objective > Brute(problem).objective) ++tighter;
  }
  EXPECT_GT(tighter, 30);
}

TEST_F(Ilp, SmallAndLargeCosts) {
  Random rng(14);
  for (double scale : {1e-12, 1e-3, 1e9}) {
    for (int round = 0; round < 20; ++round) {
      Problem problem = RandomProblem(rng, 1 + Below(rng, 9));
      Weights weights{scale, scale, 0};
      ExpectBest(SolveIlp(problem, {.weights = weights}), Brute(problem, weights).objective);
    }
  }
}

TEST_F(Ilp, Chains) {
  Random rng(15);
  for (int round = 0; round < 40; ++round) {
    Problem problem = RandomChain(rng, 1 + Below(rng, 3));
    if (Assignments(problem) < 1000000) ExpectBest(SolveIlp(problem), Brute(problem).objective);
  }
}

TEST_F(Ilp, PrintsNothing) {
  Random rng(16);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  for (int round = 0; round < 10; ++round) SolveIlp(RandomChain(rng, 10));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Ilp, NothingToChoose) {
  EXPECT_EQ(SolveIlp({}).solution->objective, 0);
  Problem problem;
  problem.unary.push_back(std::make_shared<Unary>(Unary{{2}, {1}, {0}}));
  EXPECT_EQ(SolveIlp(problem).solution->objective, 3);
}

TEST(WithoutIlp, SaysWhatIsMissing) {
  if (HasIlp()) GTEST_SKIP() << "built with CBC";
  try {
    SolveIlp({});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("coinor-libcbc-dev"));
  }
}

}  // namespace
}  // namespace heddle
