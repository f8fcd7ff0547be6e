#include "base/hash.h"

#include <gtest/gtest.h>

#if __has_include(<xxhash.h>)
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

namespace heddle {
namespace {

TEST(HashTest, IsStable) {
  // XXH64's published values.
  EXPECT_EQ(HashToHex(HashString("")), "ef46db3751d8e999");
  EXPECT_EQ(HashToHex(HashString("a")), "d24ec4f1a98c6e5b");
  EXPECT_EQ(HashToHex(HashString("abc")), "44bc2cf5ad770999");
}

#if __has_include(<xxhash.h>)
TEST(HashTest, IsTheLibrarys) {
  std::string text;
  for (int length = 0; length < 200; ++length) {
    for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x123456789abcdef}}) {
      EXPECT_EQ(HashString(text, seed), XXH64(text.data(), text.size(), seed)) << length;
    }
    text += static_cast<char>(length * 37 + 11);
  }
}
#endif

TEST(HashTest, SeedAndOrderMatter) {
  EXPECT_NE(HashString("a", 1), HashString("a", 2));
  EXPECT_NE(HashCombine(1, 2), HashCombine(2, 1));
  EXPECT_EQ(HashString("ab"), HashBytes("abc", 2));
}

TEST(HashTest, HexHasSixteenDigits) { EXPECT_EQ(HashToHex(0xab), "00000000000000ab"); }

}  // namespace
}  // namespace heddle
