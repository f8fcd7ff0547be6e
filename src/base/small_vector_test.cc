#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace heddle {
namespace {

using Small = SmallVector<int, 3>;

std::vector<int> Items(const Small& of) { return {of.begin(), of.end()}; }

// The same changes, made at random, to it and to a std::vector.
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

// Elements may own memory, as lists of lists do.
TEST(SmallVector, OfVectorsKeepsThemApart) {
  SmallVector<Small, 1> lists = {Small{1}};
  std::vector<std::vector<int>> expected = {{1}};
  for (int n = 0; n < 6; ++n) {
    std::vector<int> items(static_cast<size_t>(n + 2), n);
    lists.push_back(Small(items));
    expected.push_back(items);
  }
  lists.insert(lists.begin() + 2, Small{7, 8, 9, 10});
  expected.insert(expected.begin() + 2, {7, 8, 9, 10});
  lists.erase(lists.begin() + 1, lists.begin() + 2);
  expected.erase(expected.begin() + 1);
  SmallVector<Small, 1> copy = lists, moved = std::move(lists);
  copy[0].push_back(5);
  ASSERT_EQ(moved.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(Items(moved[i]), expected[i]) << i;
  EXPECT_EQ(Items(copy[0]), (std::vector<int>{1, 5}));
}

}  // namespace
}  // namespace heddle
