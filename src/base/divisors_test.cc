#include "base/divisors.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/testing.h"

namespace heddle {
namespace {

TEST(Divisors, AreThoseThatTrialDivisionFinds) {
  for (int64_t n = 1; n <= 5000; ++n) {
    std::vector<int64_t> expected;
    for (int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) expected.push_back(d);
    }
    ASSERT_EQ(Divisors(n), expected) << n;
  }
}

TEST(Divisors, OfLargeNumbersTakeNoTime) {
  double begin = SteadySeconds();
  const int64_t prime = 1'000'000'007, other = 2'147'483'647;
  EXPECT_EQ(Divisors(prime * other), (std::vector<int64_t>{1, prime, other, prime * other}));
  EXPECT_EQ(Divisors(prime * prime), (std::vector<int64_t>{1, prime, prime * prime}));
  EXPECT_EQ(Divisors(9'223'372'036'854'775'783).size(), 2u);  // the largest prime below 2^63
  EXPECT_EQ(Divisors(1'000'000'000'000).size(), 169u);
  EXPECT_EQ(Divisors(int64_t{1} << 62).size(), 63u);
  EXPECT_EQ(Divisors(897'612'484'786'617'600).size(), 103'680u);
  EXPECT_LT(SteadySeconds() - begin, 2 * kSlowdown);
}

TEST(Divisors, NearANumber) {
  EXPECT_EQ(LargestDivisorUpTo(100, 30), 25);
  EXPECT_EQ(LargestDivisorUpTo(100, 25), 25);
  EXPECT_EQ(LargestDivisorUpTo(100, 1'000), 100);
  EXPECT_EQ(LargestDivisorUpTo(97, 96), 1);
  EXPECT_EQ(SmallestDivisorFrom(100, 30), 50);
  EXPECT_EQ(SmallestDivisorFrom(100, 50), 50);
  EXPECT_EQ(SmallestDivisorFrom(1'000'000'000'039, 2), 1'000'000'000'039);
}

}  // namespace
}  // namespace heddle
