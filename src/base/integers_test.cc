#include "base/integers.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(IntegersTest, KeepWhatFits) {
  EXPECT_EQ(ToSize(7), 7u);
  EXPECT_EQ(ToInt(int64_t{-7}), -7);
  EXPECT_EQ(ToInt(size_t{7}), 7);
  EXPECT_EQ(ToInt64(size_t{7}), 7);
}

TEST(IntegersDeathTest, WhatDoesNotFitIsABug) {
  EXPECT_DEATH(ToSize(-1), "size -1");
  EXPECT_DEATH(ToInt(int64_t{1} << 31), "2147483648 does not fit an int");
  EXPECT_DEATH(ToInt64(size_t{1} << 63), "9223372036854775808 does not fit an int64");
}

}  // namespace
}  // namespace heddle
