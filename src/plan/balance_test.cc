#include "plan/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/rng.h"

namespace heddle {
namespace {

double Heaviest(const std::vector<double>& work, const std::vector<int>& ends) {
  double heaviest = 0;
  int first = 0;
  for (int end : ends) {
    double sum = 0;
    for (int b = first; b < end; ++b) sum += work[static_cast<size_t>(b)];
    heaviest = std::max(heaviest, sum);
    first = end;
  }
  return heaviest;
}

// All cuts of work[first..] into `stages` runs.
double Brute(const std::vector<double>& work, size_t first, int stages) {
  double sum = 0, best = std::numeric_limits<double>::infinity();
  if (stages == 1) {
    for (size_t b = first; b < work.size(); ++b) sum += work[b];
    return sum;
  }
  for (size_t end = first + 1; end + static_cast<size_t>(stages) - 1 <= work.size(); ++end) {
    sum += work[end - 1];
    best = std::min(best, std::max(sum, Brute(work, end, stages - 1)));
  }
  return best;
}

TEST(Balance, EqualBlocksComeInEqualStages) {
  EXPECT_EQ(Balance(std::vector<double>(12, 1.0), 4), (std::vector<int>{3, 6, 9, 12}));
  EXPECT_EQ(Balance({1, 1, 1}, 1), (std::vector<int>{3}));
  EXPECT_EQ(Balance({0, 0, 0}, 3), (std::vector<int>{1, 2, 3}));
}

TEST(Balance, LightEndsGoWithTheirNeighbours) {
  // An embedding without work, six layers, a head: the head's stage is the heaviest, the others stay equal.
  EXPECT_EQ(Balance({0, 1, 1, 1, 1, 1, 1, 0.3}, 3), (std::vector<int>{3, 5, 8}));
}

TEST(Balance, IsAsGoodAsTryingAllCuts) {
  uint64_t draws = 0;
  auto below = [&](uint64_t bound) { return RandomBelow(bound, 7, 0, draws++); };
  for (int round = 0; round < 200; ++round) {
    std::vector<double> work(static_cast<size_t>(1 + below(9)));
    for (double& w : work) w = static_cast<double>(below(5));
    int stages = 1 + static_cast<int>(below(work.size()));
    std::vector<int> ends = Balance(work, stages);
    ASSERT_EQ(ends.size(), static_cast<size_t>(stages));
    EXPECT_EQ(ends.back(), static_cast<int>(work.size()));
    EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end(), std::less_equal<int>()));
    EXPECT_DOUBLE_EQ(Heaviest(work, ends), Brute(work, 0, stages));
  }
}

}  // namespace
}  // namespace heddle
