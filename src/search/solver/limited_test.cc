#include "search/solver/limited.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search/solver/brute.h"
#include "search/solver/dual.h"
#include "search/solver/eliminate.h"
#include "search/solver/narrow.h"
#include "search/solver/random_problem.h"

namespace heddle {
namespace {

constexpr double kClose = 1e-9;

double BytesOf(const Problem& problem, const std::vector<int>& choice) {
  return Evaluate(problem, choice).bytes;
}

// Small enough to enumerate; chains of equal copies and arbitrary graphs alternate.
Problem SmallProblem(Random& rng, int round) {
  while (true) {
    Problem problem = round % 2 == 0 ? RandomProblem(rng, 2 + Below(rng, 9))
                                     : RandomChain(rng, 3 + Below(rng, 5));
    int64_t assignments = Assignments(problem);
    if (assignments > 1 && assignments <= 200000) return problem;
  }
}

struct LimitedCase {
  Problem problem;
  Weights weights;
  double limit = 0;
};

// Every other limit is active: between the bytes of the smallest choice and those of the cheapest.
LimitedCase RandomCase(Random& rng, int round) {
  while (true) {
    LimitedCase made{SmallProblem(rng, round), {1, 1, 0}, 0};
    if (round % 3 == 0) made.weights = {Uniform(rng), Uniform(rng), 0};
    Solution cheapest = Brute(made.problem, made.weights);
    if (cheapest.objective == kForbidden) continue;
    double most = BytesOf(made.problem, cheapest.choice);
    double least = BytesOf(made.problem, SolveFolded(made.problem, {0, 0, 1})->choice);
    size_t kind = static_cast<size_t>(round / 2) % 4;
    if (kind <= 1) {
      if (most <= least) continue;
      made.limit = least + Uniform(rng) / 1.01 * (most - least);
    } else if (kind == 2) {
      made.limit = 2 * Uniform(rng) * most;  // arbitrary
    } else {
      made.limit = Below(rng, 2) == 0 ? least : most;
    }
    return made;
  }
}

// With labels, and with branch and bound alone.
TEST(Limited, EqualsBruteForce) {
  for (int64_t max_labels : {LimitOptions{}.max_labels, int64_t{0}}) {
    Random rng(1);
    int infeasible = 0, binding = 0, chains = 0;
    int64_t nodes = 0, most_nodes = 0;
    for (int round = 0; round < 600; ++round) {
      LimitedCase made = RandomCase(rng, round);
      const Problem& problem = made.problem;
      LimitOptions options;
      options.weights = made.weights;
      options.limit = made.limit;
      options.max_labels = max_labels;
      std::optional<Solution> want = BruteLimited(problem, made.weights, made.limit);
      LimitedSolution got = SolveLimited(problem, options);
      ASSERT_TRUE(got.proven) << round;
      ASSERT_EQ(got.best.has_value(), want.has_value()) << round;
      chains += problem.chains.empty() ? 0 : 1;
      nodes += got.nodes;
      most_nodes = std::max(most_nodes, got.nodes);
      options.max_nodes = 1;
      LimitedSolution root = SolveLimited(problem, options);
      if (!want) {
        ++infeasible;
        EXPECT_EQ(got.lower_bound, kForbidden);
        EXPECT_EQ(root.lower_bound, kForbidden);
        EXPECT_TRUE(root.proven);
        continue;
      }
      double free = Brute(problem, made.weights).objective;
      binding += want->objective > free ? 1 : 0;
      EXPECT_NEAR(got.best->objective, want->objective, kClose * want->objective) << round;
      EXPECT_LE(BytesOf(problem, got.best->choice), made.limit);
      EXPECT_EQ(got.best->objective, Evaluate(problem, got.best->choice).Weighted(made.weights));
      EXPECT_LE(got.lower_bound, want->objective * (1 + kClose));
      // Stopped at once: the bound is valid, and what was found fits.
      EXPECT_LE(root.lower_bound, want->objective * (1 + kClose));
      EXPECT_GE(root.lower_bound, free * (1 - kClose));
      ASSERT_TRUE(root.best.has_value());
      EXPECT_LE(BytesOf(problem, root.best->choice), made.limit);
      EXPECT_GE(root.best->objective, want->objective * (1 - kClose));
    }
    fmt::print(
        "600 problems, {} of chains, {} binding, {} infeasible; labels {}: {:.1f} nodes, at most "
        "{}\n",
        chains, binding, infeasible, max_labels, static_cast<double>(nodes) / 600, most_nodes);
    EXPECT_GE(binding, 300);
    EXPECT_GE(infeasible, 20);
    EXPECT_GE(chains, 280);
  }
}

// The bound is valid however few labels are allowed.
TEST(Limited, FewLabels) {
  Random rng(6);
  int proven = 0;
  for (int round = 0; round < 200; ++round) {
    LimitedCase made = RandomCase(rng, round);
    std::optional<Solution> want = BruteLimited(made.problem, made.weights, made.limit);
    LimitOptions options;
    options.weights = made.weights;
    options.limit = made.limit;
    options.max_nodes = 1;
    options.max_labels = static_cast<int64_t>(10 + Below(rng, 60));
    LimitedSolution got = SolveLimited(made.problem, options);
    ASSERT_EQ(got.best.has_value(), want.has_value());
    proven += got.proven ? 1 : 0;
    if (!want) continue;
    EXPECT_LE(got.lower_bound, want->objective * (1 + kClose));
    EXPECT_GE(got.best->objective, want->objective * (1 - kClose));
    EXPECT_LE(BytesOf(made.problem, got.best->choice), made.limit);
  }
  EXPECT_LT(proven, 200);
}

TEST(Limited, WithoutALimitItIsThePlainMinimum) {
  Random rng(2);
  for (int round = 0; round < 50; ++round) {
    Problem problem = RandomChain(rng, 1 + Below(rng, 12));
    LimitedSolution got = SolveLimited(problem, {});
    Solution want = *SolveFolded(problem);
    EXPECT_TRUE(got.proven);
    ASSERT_EQ(got.best.has_value(), want.objective < kForbidden);
    if (got.best) {
      EXPECT_EQ(got.best->choice, want.choice);
    }
  }
}

TEST(Limited, NothingAllowedIsNothing) {
  Problem problem;
  Unary unary;
  unary.Push({kForbidden, 0, 1});
  problem.unary.push_back(std::make_shared<Unary>(unary));
  for (double limit : {0.0, 10.0, kForbidden}) {
    LimitedSolution got = SolveLimited(problem, {.limit = limit});
    EXPECT_TRUE(got.proven && !got.best);
    EXPECT_EQ(got.lower_bound, kForbidden);
  }
}

TEST(Limited, SameInputSameResult) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random one(seed), two(seed);
    LimitedCase a = RandomCase(one, 1), b = RandomCase(two, 1);
    LimitedSolution x = SolveLimited(a.problem, {.limit = a.limit, .max_nodes = 20});
    LimitedSolution y = SolveLimited(b.problem, {.limit = b.limit, .max_nodes = 20});
    EXPECT_EQ(x.nodes, y.nodes);
    EXPECT_EQ(x.lower_bound, y.lower_bound);
    ASSERT_EQ(x.best.has_value(), y.best.has_value());
    if (x.best) {
      EXPECT_EQ(x.best->choice, y.best->choice);
    }
  }
}

// Too large to enumerate: labels prove the minimum, and the root's result without labels is close
// to it.
TEST(Limited, LongChains) {
  Random rng(3);
  double sum = 0, worst = 0, off = 0;
  int count = 0;
  while (count < 40) {
    Problem problem = RandomChain(rng, 30);
    Solution cheapest = *SolveFolded(problem);
    if (cheapest.objective == kForbidden) continue;
    double most = BytesOf(problem, cheapest.choice);
    double least = BytesOf(problem, SolveFolded(problem, {0, 0, 1})->choice);
    if (most < 1.2 * least) continue;
    LimitOptions options;
    options.limit = least + (0.1 + 0.8 * Uniform(rng)) * (most - least);
    options.max_nodes = 1;
    LimitedSolution exact = SolveLimited(problem, options);
    EXPECT_TRUE(exact.proven);
    options.max_labels = 0;
    LimitedSolution root = SolveLimited(problem, options);
    ASSERT_TRUE(exact.best.has_value() && root.best.has_value());
    for (const LimitedSolution* got : {&exact, &root}) {
      EXPECT_LE(BytesOf(problem, got->best->choice), options.limit);
      EXPECT_LE(got->lower_bound, exact.best->objective * (1 + kClose));
      EXPECT_GE(got->best->objective, exact.best->objective * (1 - kClose));
    }
    off += root.best->objective / exact.best->objective - 1;
    sum += root.gap();
    worst = std::max(worst, root.gap());
    ++count;
  }
  fmt::print(
      "30 copies, root without labels: gap {:.3f} % on average, at most {:.3f} %; off the minimum "
      "by "
      "{:.3f} %\n",
      100 * sum / count, 100 * worst, 100 * off / count);
  EXPECT_LT(sum / count, 0.01);
}

TEST(Narrow, KeepsWhatIsAllowed) {
  Random rng(4);
  for (int round = 0; round < 100; ++round) {
    Problem problem = SmallProblem(rng, round);
    std::vector<Allowed> allowed;
    Problem forbidden = problem;
    for (size_t v = 0; v < problem.unary.size(); ++v) {
      if (Below(rng, 2) == 0) continue;
      Allowed some{static_cast<int>(v), {}};
      Unary unary = *problem.unary[v];
      for (size_t x = 0; x < unary.size(); ++x) {
        bool last = x + 1 == unary.size() && some.choices.empty();
        if (last || Below(rng, 2) == 0) {
          some.choices.push_back(static_cast<int>(x));
        } else {
          unary.seconds[x] = kForbidden;
        }
      }
      allowed.push_back(some);
      forbidden.unary[v] = std::make_shared<Unary>(unary);
    }
    Narrowed narrowed = Narrow(problem, allowed);
    Solution want = Brute(forbidden), got = *SolveFolded(narrowed.problem);
    if (want.objective == kForbidden) {
      EXPECT_EQ(got.objective, kForbidden);
      continue;
    }
    EXPECT_NEAR(got.objective, want.objective, 1e-12 * want.objective);
    std::vector<int> choice = narrowed.ToOriginal(got.choice);
    EXPECT_EQ(Evaluate(forbidden, choice), Evaluate(narrowed.problem, got.choice));
    for (size_t v = 0; v < choice.size(); ++v) {
      EXPECT_EQ(narrowed.FromOriginal(v, choice[v]), got.choice[v]);
    }
  }
}

}  // namespace
}  // namespace heddle
