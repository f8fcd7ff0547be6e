#include "search/eliminate.h"

#include <gtest/gtest.h>

#include <random>

#include "search/brute.h"
#include "search/chain_runs.h"
#include "search/powers.h"

namespace heddle {
namespace {

using Random = std::mt19937_64;

double Uniform(Random& rng) { return static_cast<double>(rng() % 1000) / 997.0; }
size_t Below(Random& rng, size_t bound) { return static_cast<size_t>(rng() % bound); }

UnaryRef RandomUnary(Random& rng, size_t domain) {
  Unary unary;
  for (size_t x = 0; x < domain; ++x) {
    double seconds = Uniform(rng), queued = Uniform(rng);
    unary.Push({seconds, queued, Uniform(rng)});
  }
  return std::make_shared<Unary>(std::move(unary));
}

TableRef RandomTable(Random& rng, size_t rows, size_t columns) {
  Table table;
  for (size_t i = 0; i < rows * columns; ++i) {
    table.push_back(Below(rng, 12) == 0 ? kForbidden : Uniform(rng));
  }
  return std::make_shared<Table>(std::move(table));
}

TableRef RandomFinite(Random& rng, size_t entries) {
  auto table = std::make_shared<Table>();
  for (size_t i = 0; i < entries; ++i) table->push_back(Uniform(rng));
  return table;
}

void ExpectSame(const Solution& got, const Solution& want) {
  if (want.objective == kForbidden) {
    EXPECT_EQ(got.objective, kForbidden);
  } else {
    EXPECT_NEAR(got.objective, want.objective, 1e-12 * want.objective);
  }
}

Problem RandomProblem(Random& rng, size_t variables) {
  Problem problem;
  for (size_t v = 0; v < variables; ++v) {
    problem.unary.push_back(RandomUnary(rng, 1 + Below(rng, 4)));
  }
  size_t pairs = Below(rng, 2 * variables);
  for (size_t p = 0; p < pairs && variables > 1; ++p) {
    int a = static_cast<int>(Below(rng, variables)), b = static_cast<int>(Below(rng, variables));
    if (a == b) continue;
    TableRef seconds = RandomTable(rng, problem.domain(a), problem.domain(b));
    TableRef queued = Below(rng, 2) == 0 ? nullptr : RandomFinite(rng, seconds->size());
    problem.pairs.push_back({a, b, seconds, queued});
  }
  return problem;
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

// Copies of a random block, each tied to the one before; sometimes to something outside, sometimes through two ends.
Problem RandomChain(Random& rng, size_t copies) {
  Problem problem;
  size_t before = 1 + Below(rng, 2), inside = 1 + Below(rng, 3), ends = 1 + Below(rng, 2);
  for (size_t v = 0; v < before; ++v) problem.unary.push_back(RandomUnary(rng, 2));
  std::vector<UnaryRef> unary;
  for (size_t i = 0; i < inside + ends; ++i) unary.push_back(RandomUnary(rng, 1 + Below(rng, 3)));
  struct Tie {
    size_t a, b;
    TableRef table;
  };
  std::vector<Tie> inner, links;
  std::vector<std::pair<size_t, TableRef>> outer;
  for (size_t a = 0; a < unary.size(); ++a) {
    for (size_t b = a + 1; b < unary.size(); ++b) {
      if (Below(rng, 3) == 0) continue;
      inner.push_back({a, b, RandomTable(rng, unary[a]->seconds.size(), unary[b]->seconds.size())});
    }
    if (Below(rng, 4) == 0) outer.push_back({a, RandomTable(rng, 2, unary[a]->seconds.size())});
  }
  for (size_t e = inside; e < unary.size(); ++e) {
    size_t b = Below(rng, unary.size());
    links.push_back({e, b, RandomTable(rng, unary[e]->seconds.size(), unary[b]->seconds.size())});
  }
  VariableChain chain;
  auto at = [&](size_t copy, size_t index) { return chain.copies[copy][index]; };
  for (size_t c = 0; c < copies; ++c) {
    chain.copies.emplace_back();
    for (const UnaryRef& u : unary) {
      chain.copies.back().push_back(static_cast<int>(problem.unary.size()));
      problem.unary.push_back(u);
    }
    for (const Tie& tie : inner)
      problem.pairs.push_back({at(c, tie.a), at(c, tie.b), tie.table, {}});
    for (const auto& [a, table] : outer) problem.pairs.push_back({0, at(c, a), table, {}});
    for (const Tie& tie : links) {
      if (c > 0) problem.pairs.push_back({at(c - 1, tie.a), at(c, tie.b), tie.table, {}});
    }
  }
  // What comes first, and something that reads the last copy.
  int first = at(0, 0), last = at(copies - 1, unary.size() - 1);
  int outside = static_cast<int>(before) - 1;
  problem.pairs.push_back({outside, first, RandomTable(rng, 2, problem.domain(first)), {}});
  problem.pairs.push_back({last, 0, RandomTable(rng, problem.domain(last), 2), {}});
  problem.chains.push_back(std::move(chain));
  return problem;
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
