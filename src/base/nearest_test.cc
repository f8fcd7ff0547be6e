#include "base/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Nearest, EditDistanceCountsSwapsOnce) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("layers", "layer"), 1u);
  EXPECT_EQ(EditDistance("gtp2", "gpt2"), 1u);
  EXPECT_EQ(EditDistance("ab", "ba"), 1u);
}

TEST(Nearest, FindsWhatWasMeant) {
  std::vector<std::string> names = {"layers", "hidden", "heads", "kv_heads", "batch"};
  EXPECT_THAT(Nearest("layer", names), ElementsAre("layers"));
  EXPECT_THAT(Nearest("HEAD", names), ElementsAre("heads"));
  EXPECT_THAT(Nearest("kv_head", names), ElementsAre("kv_heads"));
  EXPECT_THAT(Nearest("zzzzzz", names), IsEmpty());
  EXPECT_THAT(Nearest("", names), IsEmpty());
  EXPECT_THAT(Nearest(std::string(1000, 'a'), names), IsEmpty());
}

TEST(Nearest, ReadsAsAQuestion) {
  std::vector<std::string> names = {"a1", "a2", "a3", "b"};
  EXPECT_EQ(DidYouMean("a", names), "; did you mean a1, a2 or a3?");
  EXPECT_EQ(DidYouMean("q", names), "; did you mean b?");
  EXPECT_EQ(DidYouMean("qqqqqq", names), "");
}

}  // namespace
}  // namespace heddle
