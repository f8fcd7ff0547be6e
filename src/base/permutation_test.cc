#include "base/permutation.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace heddle {
namespace {

std::vector<int64_t> Order(int64_t size, uint64_t seed, uint64_t stream) {
  Permutation order(size, seed, stream);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < size; ++i) all.push_back(order(i));
  return all;
}

TEST(Permutation, VisitsEveryPlaceOnce) {
  for (int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    for (uint64_t seed : {0, 1, 99}) {
      std::vector<int64_t> order = Order(size, seed, 3);
      std::set<int64_t> seen(order.begin(), order.end());
      EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), size - 1);
    }
  }
}

TEST(Permutation, DependsOnSeedAndStream) {
  EXPECT_EQ(Order(100, 1, 2), Order(100, 1, 2));
  EXPECT_NE(Order(100, 1, 2), Order(100, 2, 2));
  EXPECT_NE(Order(100, 1, 2), Order(100, 1, 3));
}

TEST(Permutation, SmallOnesTakeEveryOrder) {
  for (auto [size, orders] : {std::pair{2, 2u}, {3, 6u}, {4, 24u}}) {
    std::set<std::vector<int64_t>> seen;
    for (uint64_t seed = 0; seed < 2000; ++seed) seen.insert(Order(size, seed, 0));
    EXPECT_EQ(seen.size(), orders) << size;
  }
}

// Position 0 maps to every place with equal probability: chi-squared of 16 cells, within 5 standard deviations.
TEST(Permutation, IsEven) {
  std::vector<int> counts(16);
  constexpr int kTrials = 16000;
  for (int seed = 0; seed < kTrials; ++seed) {
    ++counts[static_cast<size_t>(Permutation(16, static_cast<uint64_t>(seed), 0)(0))];
  }
  double chi = 0;
  for (int count : counts) chi += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi, 15 + 5 * 5.5);
}

TEST(Permutation, TakesLargeSizes) {
  const int64_t size = (int64_t{1} << 62) + 12345;
  Permutation order(size, 7, 0);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 100; ++i) {
    int64_t place = order(size - 1 - i);
    EXPECT_GE(place, 0);
    EXPECT_LT(place, size);
    seen.insert(place);
  }
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace heddle
