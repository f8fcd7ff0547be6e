#include "base/id_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace heddle {
namespace {

using testing::ElementsAre;

using FruitId = StrongId<struct FruitTag>;
using Fruits = IdVector<FruitId, std::string>;

std::vector<int> Numbers(const IdRange<FruitId>& range) {
  std::vector<int> numbers;
  for (FruitId id : range) numbers.push_back(id.value);
  return numbers;
}

TEST(IdVectorTest, HandsOutIdsAndFindsByThem) {
  Fruits fruits;
  EXPECT_FALSE(fruits.last_id().valid());
  FruitId apple = fruits.Add("apple");
  FruitId pear = fruits.Add("pear");
  EXPECT_EQ(fruits[apple], "apple");
  EXPECT_EQ(fruits[pear], "pear");
  EXPECT_EQ(fruits.last_id(), pear);
  fruits[apple] = "fig";
  EXPECT_THAT(fruits, ElementsAre("fig", "pear"));
}

TEST(IdVectorTest, GoesThroughItsIds) {
  Fruits fruits = {"apple", "pear", "fig"};
  EXPECT_THAT(Numbers(fruits.ids()), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(fruits.ids_downwards()), ElementsAre(2, 1, 0));
  EXPECT_THAT(Numbers(fruits.ids_from(FruitId{1})), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(Fruits().ids()), ElementsAre());
  EXPECT_THAT(Numbers(Fruits().ids_downwards()), ElementsAre());
}

TEST(IdVectorTest, KnowsWhichIdsItHas) {
  Fruits fruits = {"apple"};
  EXPECT_TRUE(fruits.Has(FruitId{0}));
  EXPECT_FALSE(fruits.Has(FruitId{1}));
  EXPECT_FALSE(fruits.Has(FruitId{}));
}

TEST(IdVectorDeathTest, AnInvalidIdIsABug) {
  Fruits fruits = {"apple"};
  EXPECT_DEATH(fruits[FruitId{}], "id -1");
}

TEST(IdVectorTest, HoldsBits) {
  IdVector<FruitId, bool> ripe(2, false);
  ripe[FruitId{1}] = true;
  EXPECT_THAT(ripe, ElementsAre(false, true));
}

}  // namespace
}  // namespace heddle
