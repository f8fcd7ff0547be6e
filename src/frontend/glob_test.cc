#include "frontend/glob.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(GlobMatch("*", ""));
  EXPECT_TRUE(GlobMatch("a*b?c", "axxbyc"));
  EXPECT_TRUE(GlobMatch("*.weight", "m.h.0.weight"));
  EXPECT_FALSE(GlobMatch("*.weight", "m.weight2"));
  EXPECT_FALSE(GlobMatch("?", ""));
  EXPECT_FALSE(GlobMatch("", "a"));
  EXPECT_TRUE(GlobMatch("", ""));
  EXPECT_TRUE(GlobMatch("**a**", "bab"));
}

// Names are not paths: dots and slashes are ordinary characters.
TEST(Glob, EverythingElseStandsForItself) {
  EXPECT_TRUE(GlobMatch("*", ".hidden"));
  EXPECT_TRUE(GlobMatch("?hidden", "/hidden"));
  EXPECT_TRUE(GlobMatch("/encoder*weight", "/encoder/layer.0/weight"));
  EXPECT_TRUE(GlobMatch("layers[0].*", "layers[0].bias"));
  EXPECT_FALSE(GlobMatch("layers[0].*", "layers0.bias"));
  EXPECT_TRUE(GlobMatch("[!a]", "[!a]"));
  EXPECT_FALSE(GlobMatch("[!a]", "b"));
  EXPECT_TRUE(GlobMatch("[", "["));
  EXPECT_TRUE(GlobMatch("a\\*", "a\\b"));
  EXPECT_FALSE(GlobMatch("a\\*", "a*"));
  EXPECT_TRUE(GlobMatch("a\\", "a\\"));
  EXPECT_FALSE(GlobMatch("a", "A"));
}

}  // namespace
}  // namespace heddle
