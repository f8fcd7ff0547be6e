#include "base/hash.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(HashTest, IsStable) {
  // XXH3's published value for nothing; the rest pins what files may hold.
  EXPECT_EQ(HashToHex(HashString("")), "2d06800538d394c2");
  EXPECT_EQ(HashToHex(HashString("heddle")), "c9fcbd7fe1cf1fd8");
  EXPECT_EQ(HashToHex(HashCombine(1, 2)), "07ee86c281446bef");
}

TEST(HashTest, SeedAndOrderMatter) {
  EXPECT_NE(HashString("a", 1), HashString("a", 2));
  EXPECT_NE(HashCombine(1, 2), HashCombine(2, 1));
  EXPECT_EQ(HashString("ab"), HashBytes("abc", 2));
}

TEST(HashTest, HexHasSixteenDigits) { EXPECT_EQ(HashToHex(0xab), "00000000000000ab"); }

}  // namespace
}  // namespace heddle
