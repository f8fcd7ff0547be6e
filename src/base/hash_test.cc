#include "base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#if __has_include(<xxhash.h>)
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

#include "base/hash_stream.h"

namespace heddle {
namespace {

TEST(HashTest, IsStable) {
  // The published values of XXH64.
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

TEST(HashTest, PiecesMakeTheWhole) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += static_cast<char>(i * 37 + 11);
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t step : {size_t{1}, size_t{7}, size_t{31}, size_t{32}, size_t{100}}) {
      HashStream stream(5);
      stream.Add(text.data(), first);
      for (size_t at = first; at < text.size(); at += step)
        stream.Add(text.data() + at, std::min(step, text.size() - at));
      EXPECT_EQ(stream.Finish(), HashString(text, 5)) << first << " " << step;
    }
  }
}

TEST(HashTest, SeedAndOrderMatter) {
  EXPECT_NE(HashString("a", 1), HashString("a", 2));
  EXPECT_NE(HashCombine(1, 2), HashCombine(2, 1));
  EXPECT_EQ(HashString("ab"), HashBytes("abc", 2));
}

TEST(HashTest, HexHasSixteenDigits) { EXPECT_EQ(HashToHex(0xab), "00000000000000ab"); }

}  // namespace
}  // namespace heddle
