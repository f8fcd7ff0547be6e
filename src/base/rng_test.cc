#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace heddle {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers from the authors' own test suite (Random123, kat_vectors).
static_assert(Philox({0, 0, 0, 0}, {0, 0}) ==
              Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
static_assert(RandomBits(0, 0, 0) == 0xe169c58d6627e8d5);

TEST(RngTest, EveryArgumentMatters) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t base : {std::uint64_t{0}, std::uint64_t{1} << 32}) {
    for (std::uint64_t i = 1; i < 20; ++i) {
      seen.insert(RandomBits(base + i, 0, 0));
      seen.insert(RandomBits(0, base + i, 0));
      seen.insert(RandomBits(0, 0, base + i));
    }
  }
  EXPECT_EQ(seen.size(), 2u * 19 * 3);
}

TEST(RngTest, UniformHasItsMoments) {
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = RandomUniform(1, 2, i);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

TEST(RngTest, BelowCoversItsRange) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 200; ++i) seen.insert(RandomBelow(7, 3, 0, i));
  EXPECT_EQ(seen, (std::set<std::uint64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(RngTest, NormalHasItsMoments) {
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0, fourth = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = RandomNormal(1, 2, i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.015);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
  EXPECT_NEAR(fourth / kDraws, 3, 0.15);
}

TEST(RngTest, QuantileInvertsTheDistribution) {
  EXPECT_EQ(NormalQuantile(0.5), 0);
  EXPECT_NEAR(NormalQuantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(NormalQuantile(0.25), -0.6744897501960817, 1e-15);
  EXPECT_NEAR(NormalQuantile(1e-10), -6.361340902404056, 1e-13);
  for (double x = -12; x <= 0; x += 0.01) {  // the lower half, where p has full relative precision
    const double p = std::erfc(-x / std::sqrt(2.0)) / 2;
    EXPECT_NEAR(NormalQuantile(p), x, 1e-14 * (1 - x)) << "p = " << p;
  }
  EXPECT_NEAR(NormalQuantile(0.999), -NormalQuantile(0.001), 1e-13);
}

TEST(RngTest, ExtremeDrawsAreFinite) {
  EXPECT_NEAR(NormalQuantile(0.5 * 0x1p-52), -8.2095, 1e-3);
  EXPECT_TRUE(std::isfinite(NormalQuantile((0x1p52 - 0.5) * 0x1p-52)));
}

}  // namespace
}  // namespace heddle
