#include "base/text.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(CutText, CutsBetweenCharacters) {
  const std::string text = "a\u00e4\u20ac\U0001F600b";  // 1, 2, 3, 4 and 1 bytes
  const std::vector<size_t> kept = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t limit = 0; limit < kept.size(); ++limit)
    EXPECT_EQ(CutText(text, limit), text.substr(0, kept[limit])) << limit;
}

TEST(ShortenText, SaysWhereSomethingIsMissing) {
  EXPECT_EQ(ShortenText("abcd", 4), "abcd");
  EXPECT_EQ(ShortenText("abcde", 4), "abcd...");
  EXPECT_EQ(ShortenText("abc\u00e4", 4), "abc...");
  EXPECT_EQ(ShortenText("", 0), "");
}

// Bytes that are not UTF-8 are cut, too, and never read beyond the end of the text.
TEST(CutText, TakesAnyBytes) {
  EXPECT_EQ(CutText("\x80\x80\x80", 2), "");
  EXPECT_EQ(CutText("\xff\xff\xff", 2), "\xff\xff");
}

}  // namespace
}  // namespace heddle
