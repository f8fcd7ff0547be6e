#include "base/error.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(ErrorTest, FormatsItsArguments) {
  try {
    ThrowInput("{}:{}: batch is {}", "a.yaml", 3, -1);
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "a.yaml:3: batch is -1");
  }
  EXPECT_THROW(ThrowRun("rank {} is gone", 2), RunError);
}

TEST(ErrorTest, IsAlwaysOneLine) {
  EXPECT_EQ(OneLine("one\ntwo\tthree\x1b[31m\n"), "one two three\\x1b[31m");
  EXPECT_STREQ(InputError("a\nb\n").what(), "a b");
  EXPECT_EQ(OneLine("naïve"), "naïve");
}

}  // namespace
}  // namespace heddle
