#include "sim/fair_share.h"

#include <gtest/gtest.h>

#include <limits>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Loads = std::vector<Load>;

TEST(FairShare, TheExampleOfTheHeader) {
  FairShare net({100, 40});
  EXPECT_EQ(net.NextEnd(), kInfinity);
  const int a = net.Start(0, 400, Loads{{0, 1}, {1, 1}});
  const int b = net.Start(0, 300, Loads{{0, 1}});
  EXPECT_EQ(net.active(), 2u);
  EXPECT_NEAR(net.Rate(a), 40, 1e-9);
  EXPECT_NEAR(net.Rate(b), 60, 1e-9);
  EXPECT_NEAR(net.NextEnd(), 5, 1e-9);
  std::vector<int> ended;
  net.Advance(net.NextEnd(), ended);
  EXPECT_EQ(ended, std::vector<int>{b});
  EXPECT_NEAR(net.Rate(a), 40, 1e-9);
  EXPECT_NEAR(net.NextEnd(), 10, 1e-9);
  net.Advance(net.NextEnd(), ended);
  EXPECT_EQ(ended, std::vector<int>{a});
  EXPECT_EQ(net.active(), 0u);
  EXPECT_EQ(net.NextEnd(), kInfinity);
}

TEST(FairShare, TwoEqualFlowsHalveALink) {
  FairShare net({10});
  const int a = net.Start(1, 10, Loads{{0, 1}});
  EXPECT_NEAR(net.NextEnd(), 2, 1e-9);
  const int b = net.Start(1.5, 10, Loads{{0, 1}});  // a has 5 left
  EXPECT_NEAR(net.Rate(a), 5, 1e-9);
  EXPECT_NEAR(net.Rate(b), 5, 1e-9);
  EXPECT_NEAR(net.End(a), 2.5, 1e-9);
  std::vector<int> ended;
  net.Advance(net.NextEnd(), ended);  // b has 5 left and is alone on the link
  EXPECT_EQ(ended, std::vector<int>{a});
  EXPECT_NEAR(net.NextEnd(), 3, 1e-9);
}

// Bertsekas and Gallager: one long flow over two links, one short flow on the first and two on the second.
TEST(FairShare, LongAndShortFlows) {
  FairShare net({12, 12});
  const int whole = net.Start(0, 100, Loads{{0, 1}, {1, 1}});
  const int left = net.Start(0, 100, Loads{{0, 1}});
  const int right = net.Start(0, 100, Loads{{1, 1}});
  const int other = net.Start(0, 100, Loads{{1, 1}});
  EXPECT_NEAR(net.Rate(whole), 4, 1e-9);
  EXPECT_NEAR(net.Rate(left), 8, 1e-9);
  EXPECT_NEAR(net.Rate(right), 4, 1e-9);
  EXPECT_NEAR(net.Rate(other), 4, 1e-9);
}

TEST(FairShare, WeightsScaleWhatAFlowUses) {
  FairShare net({12, 1000});
  const int heavy = net.Start(0, 100, Loads{{0, 3}, {1, 1}});
  const int light = net.Start(0, 100, Loads{{0, 1}});
  EXPECT_NEAR(net.Rate(heavy), 3, 1e-9);
  EXPECT_NEAR(net.Rate(light), 3, 1e-9);
  const int split = net.Start(0, 100, Loads{{0, 0.5}, {0, 1.5}});  // the same link twice
  EXPECT_NEAR(net.Rate(split), 2, 1e-9);
}

TEST(FairShare, NothingToMoveEndsAtOnce) {
  FairShare net({1});
  const int none = net.Start(2, 0, Loads{{0, 1}});
  const int nowhere = net.Start(2, 5, {});
  const int weightless = net.Start(2, 5, Loads{{0, 0}});
  const int real = net.Start(2, 5, Loads{{0, 1}});
  EXPECT_EQ(net.NextEnd(), 2);
  std::vector<int> ended = {99};
  net.Advance(2, ended);
  EXPECT_EQ(ended, (std::vector<int>{none, nowhere, weightless}));
  EXPECT_EQ(net.NextEnd(), 7);
  net.Advance(4, ended);  // no flow ends yet
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(net.End(real), 7);
}

TEST(FairShare, EqualEndsComeTogetherAndIdsAreReused) {
  FairShare net({3, 3, 3});
  std::vector<int> started;
  for (int i = 0; i < 3; ++i) started.push_back(net.Start(0, 1, Loads{{i, 1}}));
  std::vector<int> ended;
  net.Advance(net.NextEnd(), ended);
  EXPECT_EQ(ended, started);
  for (int i = 0; i < 3; ++i) EXPECT_LT(net.Start(1, 1, Loads{{i, 1}}), 3);
}

TEST(FairShare, AnEndStaysWhereTheRateDoes) {
  FairShare net({10, 1e9 / 3, 7});
  const int a = net.Start(0.1, 1.0 / 3, Loads{{0, 1}, {1, 1}});
  const double end = net.End(a);
  net.Start(0.11, 1, Loads{{1, 0.1}, {2, 1}});  // connected with a, but not its bottleneck
  EXPECT_EQ(net.End(a), end);
}

// Three flows around a triangle of links: each crosses two links, and each link is crossed by two flows.
TEST(FairShare, LinksOfOneClassAreStatedOnce) {
  const double w = 1.0 / 7;
  FairShare whole({0.3, 0.3, 0.3});
  FairShare folded({0.3});
  for (const double start : {0.1, 0.2}) {
    for (int i = 0; i < 3; ++i) whole.Start(start, 1, Loads{{i, w}, {(i + 1) % 3, w}});
    folded.Start(start, 1, Loads{{0, w, 2}});
    EXPECT_EQ(whole.NextEnd(), folded.NextEnd());
  }
  std::vector<int> ended;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(whole.NextEnd(), folded.NextEnd());
    folded.Advance(folded.NextEnd(), ended);
    EXPECT_EQ(ended.size(), 1u);
    whole.Advance(whole.NextEnd(), ended);
    EXPECT_EQ(ended.size(), 3u);
  }
}

// Flows of two classes cross one link with the same weight.
TEST(FairShare, CopiesOfTwoClassesAddUpAsIntegers) {
  const double w = 1.0 / 29;
  ASSERT_NE(7 * w + 3 * w, 10 * w);  // in binary floating point
  FairShare folded({1.7, 5, 5});
  folded.Start(0, 1, Loads{{0, w, 7}, {1, 1}});
  folded.Start(0, 2, Loads{{0, w, 3}, {2, 1}});
  std::vector<double> capacities(11, 5);
  capacities[0] = 1.7;
  FairShare whole(capacities);
  for (int i = 0; i < 10; ++i) whole.Start(0, i < 7 ? 1 : 2, Loads{{0, w}, {i + 1, 1}});
  std::vector<int> ended;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(folded.NextEnd(), whole.NextEnd());
    folded.Advance(folded.NextEnd(), ended);
    whole.Advance(whole.NextEnd(), ended);
    EXPECT_EQ(ended.size(), round == 0 ? 7u : 3u);
  }
}

}  // namespace
}  // namespace heddle
