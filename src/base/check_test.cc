#include "base/check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace heddle {
namespace {

enum class Colour { kRed = 7 };
struct Opaque {
  bool operator==(const Opaque&) const { return false; }
};

TEST(CheckTest, HoldsQuietly) {
  const std::vector<int> three(3);
  HEDDLE_CHECK(true);
  HEDDLE_CHECK(!three.empty(), "never {}", "printed");
  HEDDLE_CHECK_EQ(three.size(), 3);
  HEDDLE_CHECK_NE(1, 2);
  HEDDLE_CHECK_LT(-1, three.size());  // -1 is less than 3u: integers compare by value
  HEDDLE_CHECK_LE(2.0, 2.0);
  HEDDLE_CHECK_GT(3, 2);
  HEDDLE_CHECK_GE(std::string("b"), "a");
}

TEST(CheckTest, EvaluatesOperandsOnce) {
  int calls = 0;
  HEDDLE_CHECK_EQ(++calls, 1);
  HEDDLE_CHECK(++calls == 2);
  EXPECT_EQ(calls, 2);
}

TEST(CheckDeathTest, PrintsPlaceConditionAndOperands) {
  const int a = 2;
  EXPECT_DEATH(HEDDLE_CHECK(a == 3, "a is {}", a), "check_test.cc:.*a == 3: a is 2");
  EXPECT_DEATH(HEDDLE_CHECK(a == 3), "check failed: a == 3");
  EXPECT_DEATH(HEDDLE_CHECK_EQ(a, 3), "a == 3: 2 against 3");
  EXPECT_DEATH(HEDDLE_CHECK_LT(a, 1u), "a < 1u: 2 against 1");
  EXPECT_DEATH(HEDDLE_CHECK_EQ(Colour::kRed, Colour{8}), "7 against 8");
  EXPECT_DEATH(HEDDLE_CHECK_EQ(Opaque{}, Opaque{}), "\\? against \\?");
}

}  // namespace
}  // namespace heddle
