#include "base/checked_math.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace heddle {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST(CheckedMathTest, Tries) {
  EXPECT_EQ(TryAdd(2, 3), 5);
  EXPECT_EQ(TryAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(TryAdd(kMin, -1), std::nullopt);
  EXPECT_EQ(TryMul(-2, 3), -6);
  EXPECT_EQ(TryMul(kMax, 2), std::nullopt);
  EXPECT_EQ(TryMul(kMin, -1), std::nullopt);
}

TEST(CheckedMathTest, Throws) {
  EXPECT_EQ(CheckedAdd(kMax, 0, "x"), kMax);
  EXPECT_EQ(CheckedMul(1 << 20, 1 << 20, "x"), std::int64_t{1} << 40);
  EXPECT_THROW(CheckedAdd(kMax, 1, "x"), InputError);
  try {
    CheckedMul(std::int64_t{1} << 62, 4, "elements of w");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "elements of w: 4611686018427387904 * 4 overflows 64 bits");
  }
}

TEST(CheckedMathTest, Products) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(CheckedProduct({}, "x"), 1);
  EXPECT_EQ(CheckedProduct(std::vector<std::int64_t>{2, 3, 4}, "x"), 24);
  EXPECT_EQ(CheckedProduct(std::vector<std::int64_t>{huge, huge, 0}, "x"), 0);
  EXPECT_THROW(CheckedProduct(std::vector<std::int64_t>{huge, huge}, "x"), InputError);
}

}  // namespace
}  // namespace heddle
