#include "base/max_flow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace heddle {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct TestEdge {
  int from, to;
  double capacity;
};

double CutCost(const std::vector<TestEdge>& edges, uint32_t side) {
  double cost = 0;
  for (const TestEdge& edge : edges) {
    if ((side >> edge.from & 1) != 0 && (side >> edge.to & 1) == 0) cost += edge.capacity;
  }
  return cost;
}

// The minimum over all sets that contain vertex 0 but not vertex 1.
double CheapestCut(const std::vector<TestEdge>& edges, int vertices) {
  double least = kInfinite;
  for (uint32_t side = 1; side < 1u << vertices; side += 2) {
    if ((side & 2) == 0) least = std::min(least, CutCost(edges, side));
  }
  return least;
}

TEST(MaxFlow, EqualsTheCheapestOfAllCuts) {
  std::mt19937_64 rng(1);
  int nothing = 0, infinite = 0;
  for (int round = 0; round < 2000; ++round) {
    int vertices = 2 + static_cast<int>(rng() % 8);
    std::vector<TestEdge> edges;
    for (size_t e = rng() % 30; e > 0; --e) {
      auto vertex = [&] { return static_cast<int>(rng() % static_cast<uint64_t>(vertices)); };
      double capacity = static_cast<double>(rng() % 1000) / 997;
      if (rng() % 10 == 0) capacity = rng() % 2 == 0 ? 0 : 1e-15;
      edges.push_back({vertex(), vertex(), capacity});
    }
    std::vector<TestEdge> some = edges;  // infinite, unless that makes a whole path infinite
    for (TestEdge& edge : some) edge.capacity = rng() % 4 == 0 ? kInfinite : edge.capacity;
    if (CheapestCut(some, vertices) < kInfinite) edges = some;
    MaxFlow flow(vertices);
    for (const TestEdge& edge : edges) flow.Add(edge.from, edge.to, edge.capacity);
    double got = flow.Solve(0, 1), want = CheapestCut(edges, vertices);
    EXPECT_NEAR(got, want, 1e-13) << "round " << round;
    uint32_t side = 0;
    for (int v = 0; v < vertices; ++v) {
      if (flow.source_side()[static_cast<size_t>(v)]) side |= 1u << v;
    }
    EXPECT_EQ(side & 3, 1u) << "round " << round;
    EXPECT_NEAR(CutCost(edges, side), want, 1e-13) << "round " << round;
    nothing += want == 0 ? 1 : 0;
    for (const TestEdge& edge : edges) infinite += std::isinf(edge.capacity) ? 1 : 0;
  }
  EXPECT_LT(nothing, 1000);
  EXPECT_GT(infinite, 1000);
}

// Flow must be redirected: the shortest path 0 -> 2 -> 5 -> 1 uses what both other paths need.
TEST(MaxFlow, TakesBack) {
  MaxFlow flow(6);
  flow.Add(0, 2, 1);
  flow.Add(0, 3, 1);
  flow.Add(2, 5, 1);
  flow.Add(2, 4, 1);
  flow.Add(3, 5, 1);
  flow.Add(4, 1, 1);
  flow.Add(5, 1, 1);
  EXPECT_EQ(flow.Solve(0, 1), 2);
}

TEST(MaxFlow, OfEqualCutsTheSmallestSourceSide) {
  MaxFlow flow(4);
  flow.Add(0, 2, 1);
  flow.Add(2, 3, 1);
  flow.Add(3, 1, 1);
  EXPECT_EQ(flow.Solve(0, 1), 1);
  EXPECT_EQ(flow.source_side(), (std::vector<bool>{true, false, false, false}));
}

TEST(MaxFlow, LongChainsAndNothing) {
  constexpr int kLong = 200'000;
  MaxFlow chain(kLong);
  for (int v = 0; v + 1 < kLong; ++v) chain.Add(v, v + 1, v == kLong / 2 ? 0.5 : 1);
  EXPECT_EQ(chain.Solve(0, kLong - 1), 0.5);
  MaxFlow nothing(2);
  EXPECT_EQ(nothing.Solve(0, 1), 0);
}

}  // namespace
}  // namespace heddle
