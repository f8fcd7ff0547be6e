#include "ops/dim_part.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

// b = 8, s = 512, h = 64.
Rule Sizes() {
  Rule rule;
  rule.factors = {{"b", 8}, {"s", 512}, {"h", 64}, {"none", 0}};
  return rule;
}

TEST(DimPart, AFactorThatHoldsAllOfThePart) {
  Rule rule = Sizes();
  std::optional<FactorPart> batch = FindInProduct(rule, {0, 1}, {1, 8, 512}, PartFit::kWhole);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->factor, 0);
  EXPECT_EQ(batch->part, (DimPart{1, 8, 1}));
  std::optional<FactorPart> inside = FindInProduct(rule, {0, 1}, {16, 64, 4}, PartFit::kWhole);
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->factor, 1);
  EXPECT_EQ(inside->part, (DimPart{2, 64, 4}));
  EXPECT_FALSE(FindInProduct(rule, {0, 1}, {4, 16, 64}, PartFit::kWhole));  // two factors cut it
  EXPECT_FALSE(FindInProduct(rule, {0, 3}, {1, 8, 1}, PartFit::kWhole));    // no elements
  EXPECT_TRUE(FindInProduct(rule, {3}, {1, 0, 1}, PartFit::kWhole));
}

TEST(DimPart, TheOutermostPieceOfAPartThatIsCut) {
  Rule rule = Sizes();
  std::optional<FactorPart> cut = FindInProduct(rule, {1, 2}, {1, 1024, 32}, PartFit::kOutermost);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->factor, 1);
  EXPECT_EQ(cut->part, (DimPart{1, 512, 1}));
  std::optional<FactorPart> whole = FindInProduct(rule, {0, 1}, {16, 64, 4}, PartFit::kOutermost);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->factor, 1);
  EXPECT_EQ(whole->part, (DimPart{2, 64, 4}));
}

TEST(DimPart, APartOfAFactorInADimension) {
  Rule rule = Sizes();
  EXPECT_EQ(InDimension(rule, {0, 1, 2}, 1, {2, 64, 4}), (DimPart{16, 64, 256}));
  EXPECT_FALSE(InDimension(rule, {0, 2}, 1, {1, 512, 1}));
}

}  // namespace
}  // namespace heddle
