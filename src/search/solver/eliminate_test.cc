#include "search/solver/eliminate.h"

#include <gtest/gtest.h>

#include "search/solver/brute.h"
#include "search/solver/chain_runs.h"
#include "search/solver/powers.h"
#include "search/solver/random_problem.h"

namespace heddle {
namespace {

void ExpectSame(const Solution& got, const Solution& want) {
  if (want.objective == kForbidden) {
    EXPECT_EQ(got.objective, kForbidden);
  } else {
    EXPECT_NEAR(got.objective, want.objective, 1e-12 * want.objective);
  }
}

TEST(Eliminate, EqualsBruteForceOnRandomProblems) {
  Random rng(1);
  for (int round = 0; round < 400; ++round) {
    Problem problem = RandomProblem(rng, 1 + Below(rng, 9));
    double bytes = round % 3 == 0 ? 0.5 : 0;
    Solution want = Brute(problem, {1, 1, bytes});
    std::optional<Solution> got = SolveWhole(problem, {1, 1, bytes});
    ASSERT_TRUE(got.has_value());
    ExpectSame(*got, want);
    ExpectSame(*SolveFolded(problem, {1, 1, bytes}), want);
  }
}

TEST(Eliminate, PowersEqualTheUnrolledProblem) {
  size_t runs = 0;
  Random rng(2);
  for (int round = 0; round < 400; ++round) {
    Problem problem = RandomChain(rng, 1 + Below(rng, 20));
    double bytes = round % 2 == 0 ? 0.3 : 0;
    std::optional<Solution> whole = SolveWhole(problem, {1, 1, bytes});
    std::optional<Solution> folded = SolveFolded(problem, {1, 1, bytes});
    ASSERT_TRUE(whole.has_value() && folded.has_value());
    runs += FindRuns(problem).size();
    ExpectSame(*folded, *whole);
    if (Assignments(problem) < 100000) ExpectSame(*folded, Brute(problem, {1, 1, bytes}));
  }
  EXPECT_GT(runs, 200u);
}

TEST(Eliminate, OneBlockOfAChainMayDiffer) {
  Random rng(3);
  for (int round = 0; round < 100; ++round) {
    Problem problem = RandomChain(rng, 12);
    std::vector<int> fixed(problem.unary.size(), -1);
    fixed[static_cast<size_t>(problem.chains[0].copies[5][0])] = 0;
    Problem restricted = Restrict(problem, fixed);
    ExpectSame(*SolveFolded(restricted), *SolveWhole(restricted));
  }
}

TEST(Eliminate, SameInputSameChoice) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random one(seed), two(seed);
    Problem a = RandomChain(one, 9), b = RandomChain(two, 9);
    EXPECT_EQ(SolveFolded(a)->choice, SolveFolded(b)->choice);
    EXPECT_EQ(SolveWhole(a)->choice, SolveWhole(b)->choice);
  }
}

TEST(Powers, AddUpAlongTheWay) {
  Random rng(4);
  size_t n = 5;
  Table matrix = *RandomTable(rng, n, n);
  for (int64_t k = 1; k <= 33; ++k) {
    MinPlusPower power(matrix, n, k);
    for (int from = 0; from < 5; ++from) {
      for (int to = 0; to < 5; ++to) {
        double want = power.power()[static_cast<size_t>(from) * n + static_cast<size_t>(to)];
        if (want == kForbidden) continue;
        std::vector<int> states = power.Between(from, to);
        ASSERT_EQ(states.size(), static_cast<size_t>(k - 1));
        states.push_back(to);
        double sum = 0;
        int at = from;
        for (int state : states) {
          sum += matrix[static_cast<size_t>(at) * n + static_cast<size_t>(state)];
          at = state;
        }
        EXPECT_NEAR(sum, want, 1e-12 * want);
      }
    }
  }
}

}  // namespace
}  // namespace heddle
