#include "base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace heddle {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("latnecy", "latency"), 1);  // two neighbours are swapped
}

TEST(Nearest, PutsTheClosestFirst) {
  static constexpr std::array<std::string_view, 4> kNames = {"dgx-a100", "dgx-h100", "dgx-h200",
                                                             "summit"};
  EXPECT_EQ(Nearest("dgx-h10", kNames),
            (std::vector<std::string>{"dgx-h100", "dgx-a100", "dgx-h200"}));
  EXPECT_EQ(Nearest("sumit", kNames), (std::vector<std::string>{"summit"}));
  EXPECT_EQ(Nearest("dgx", kNames, 2), (std::vector<std::string>{"dgx-a100", "dgx-h100"}));
  EXPECT_TRUE(Nearest("qwerty", kNames).empty());
  EXPECT_TRUE(Nearest(std::string(1000, 'x'), kNames).empty());
}

TEST(Nearest, ListsEverythingWhenNothingIsNear) {
  static constexpr std::array<std::string_view, 2> kNames = {"ring", "switch"};
  EXPECT_EQ(DidYouMean("rin", kNames), "did you mean 'ring'?");
  EXPECT_EQ(DidYouMean("cube", kNames), "choose one of ring, switch");
}

}  // namespace
}  // namespace heddle
