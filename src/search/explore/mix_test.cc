#include "search/explore/mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace heddle {
namespace {

// Enumerates pairs of policies and the numbers of layers that have the second one.
double LeastSeconds(const std::array<PolicyCost, 3>& costs, int layers, double limit) {
  double least = kForbidden;
  for (const PolicyCost& a : costs) {
    for (const PolicyCost& b : costs) {
      if (!a.allowed || !b.allowed) continue;
      for (int k = 0; k <= layers; ++k) {
        double share = layers > 0 ? static_cast<double>(k) / layers : 0;
        if (a.bytes + share * (b.bytes - a.bytes) > limit * (1 + 1e-9)) continue;
        least = std::min(least, a.seconds + share * (b.seconds - a.seconds));
      }
    }
  }
  return least;
}

TEST(Mix, EqualsTryingEverything) {
  std::mt19937_64 rng(3);
  auto uniform = [&] { return static_cast<double>(rng() % 1000 + 1) / 1000; };
  int mixed = 0, whole = 0, none = 0;
  for (int round = 0; round < 20000; ++round) {
    std::array<PolicyCost, 3> costs;
    for (PolicyCost& cost : costs) cost = {rng() % 5 != 0, uniform(), uniform()};
    if (round % 2 == 0) {  // as real policies: stricter ones are slower and keep less
      std::sort(costs.begin(), costs.end(),
                [](const PolicyCost& a, const PolicyCost& b) { return a.seconds < b.seconds; });
      std::array<double, 3> bytes = {costs[0].bytes, costs[1].bytes, costs[2].bytes};
      std::sort(bytes.rbegin(), bytes.rend());
      for (size_t i = 0; i < 3; ++i) costs[i].bytes = bytes[i];
    }
    int layers = static_cast<int>(rng() % 13);
    double limit = uniform();
    Mix mix = CheapestMix(costs, layers, limit);
    double want = LeastSeconds(costs, layers, limit);
    ASSERT_EQ(mix.fits, want < kForbidden) << round;
    const PolicyCost &lax = costs[mix.lax], &strict = costs[mix.strict];
    if (!mix.fits) {
      ++none;
      for (const PolicyCost& cost : costs) {
        EXPECT_TRUE(!cost.allowed || mix.bytes <= cost.bytes);
      }
      continue;
    }
    ASSERT_TRUE(lax.allowed && strict.allowed);
    EXPECT_LE(mix.bytes, limit * (1 + 1e-9));
    EXPECT_NEAR(mix.bytes, lax.bytes + mix.share * (strict.bytes - lax.bytes), 1e-12);
    EXPECT_NEAR(mix.share * layers, std::round(mix.share * layers), 1e-9);
    EXPECT_NEAR(lax.seconds + mix.share * (strict.seconds - lax.seconds), want, 1e-9) << round;
    (mix.lax != mix.strict ? mixed : whole) += 1;
  }
  EXPECT_GT(mixed, 1000);
  EXPECT_GT(whole, 1000);
  EXPECT_GT(none, 1000);
}

}  // namespace
}  // namespace heddle
