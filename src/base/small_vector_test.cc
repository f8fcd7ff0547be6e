#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace heddle {
namespace {

using Small = SmallVector<int, 3>;

std::vector<int> Items(const Small& of) { return {of.begin(), of.end()}; }

// Applies the same random changes to a SmallVector and a std::vector and compares them.
TEST(SmallVector, IsAsAVectorAfterAnyChanges) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Small small;
  std::vector<int> vector;
  for (int n = 0; n < 20'000; ++n) {
    int item = static_cast<int>(random() % 1000);
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        small.push_back(item);
        vector.push_back(item);
        break;
      case 3: {
        size_t at = below(vector.size() + 1);
        small.insert(small.begin() + at, item);
        vector.insert(vector.begin() + static_cast<std::ptrdiff_t>(at), item);
        break;
      }
      case 4: {
        size_t first = below(vector.size() + 1), last = first + below(vector.size() - first + 1);
        small.erase(small.begin() + first, small.begin() + last);
        vector.erase(vector.begin() + static_cast<std::ptrdiff_t>(first),
                     vector.begin() + static_cast<std::ptrdiff_t>(last));
        break;
      }
      case 5: {
        Small copy = small, moved = std::move(small);
        EXPECT_TRUE(copy == moved);
        small = below(2) == 0 ? copy : std::move(moved);
        break;
      }
      case 6:
        if (vector.size() > 12) {
          small.clear();
          vector.clear();
        }
        break;
      default:
        small = Small(vector);
    }
    ASSERT_EQ(Items(small), vector);
    if (!vector.empty()) {
      ASSERT_EQ(small.front(), vector.front());
      ASSERT_EQ(small.back(), vector.back());
    }
  }
}

TEST(SmallVector, IsEqualByItsItems) {
  EXPECT_TRUE((Small{1, 2} == Small{1, 2}));
  EXPECT_FALSE((Small{1, 2} == Small{1, 2, 3, 4}));
  EXPECT_FALSE((Small{1, 2} == Small{1, 3}));
}

}  // namespace
}  // namespace heddle
