#include "plan/units.h"

#include <gtest/gtest.h>

#include <numeric>

namespace heddle {
namespace {

// Blocks: 'l' is a layer, '.' a single node.
ModelUnits Units(const std::string& blocks) {
  Model model;
  for (char c : blocks) model.blocks.push_back({{}, c == 'l' ? 0 : -1, -1});
  return UnitsOf(model);
}

TEST(Units, AreTheEmbeddingLayersAndTheHead) {
  ModelUnits units = Units("..lll...");
  EXPECT_EQ(units.begins, (std::vector<int>{0, 2, 3, 4, 5, 8}));
  EXPECT_TRUE(units.embedding && units.head);
  EXPECT_EQ(units.layers(), 3);
}

TEST(Units, WhatIsBetweenLayersIsWithTheOneBefore) {
  EXPECT_EQ(Units("l.l..l").begins, (std::vector<int>{0, 2, 5, 6}));
  EXPECT_FALSE(Units("l.l..l").embedding);
  EXPECT_FALSE(Units("l.l..l").head);
  EXPECT_EQ(Units("l.l.").begins, (std::vector<int>{0, 2, 3, 4}));
}

TEST(Units, OfAModelWithoutLayersAreItsBlocks) {
  EXPECT_EQ(Units("...").begins, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(Units("...").layers(), 3);
}

// Units: an embedding with 0.1 FLOPs, layers with 1, and a head.
struct Cut {
  int layers;
  double head;
  std::vector<int> Of(int devices, int chunks) const {
    std::vector<double> work(static_cast<size_t>(layers) + 2, 1.0);
    work.front() = 0.1;
    work.back() = head;
    std::vector<int> ends = CutEvenly(units(), work, devices, chunks), counts;
    for (size_t s = 0; s < ends.size(); ++s) counts.push_back(ends[s] - (s == 0 ? 0 : ends[s - 1]));
    std::vector<int> blocks = ends;  // every unit is one block
    EXPECT_TRUE(IsEvenCut(units(), blocks));
    return counts;
  }
  ModelUnits units() const {
    return Units("." + std::string(static_cast<size_t>(layers), 'l') + ".");
  }
};

TEST(EvenCuts, AsManyLayersAsStagesCanHaveAlike) {
  EXPECT_EQ((Cut{8, 0.2}.Of(2, 2)), (std::vector<int>{3, 2, 2, 3}));  // the embedding, the head
}

TEST(EvenCuts, TheEmbeddingAndTheHeadCountWhereLayersAreMissing) {
  EXPECT_EQ((Cut{6, 0.2}.Of(2, 4)), (std::vector<int>(8, 1)));
  EXPECT_EQ((Cut{14, 0.2}.Of(4, 2)), (std::vector<int>(8, 2)));
}

// Llama 3 405B: 126 layers.
TEST(EvenCuts, OfAHundredAndTwentySixLayers) {
  EXPECT_EQ((Cut{126, 0.6}.Of(16, 8)), std::vector<int>(128, 1));
  EXPECT_EQ((Cut{126, 0.6}.Of(16, 4)), std::vector<int>(64, 2));
  EXPECT_TRUE(CutEvenly(Cut{126, 0.6}.units(), std::vector<double>(128, 1.0), 16, 9).empty());
}

TEST(EvenCuts, AHeavyHeadHasFewerLayersBesideIt) {
  std::vector<int> counts = Cut{12, 5.0}.Of(4, 2);
  EXPECT_EQ(counts.back(), 1);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 14);
}

TEST(EvenCuts, OtherCutsAreNone) {
  ModelUnits units = Cut{8, 0.2}.units();
  EXPECT_TRUE(IsEvenCut(units, {3, 5, 7, 10}));
  EXPECT_TRUE(IsEvenCut(units, {2, 4, 7, 10}));   // of 10 units 2, 2, 3, 3
  EXPECT_FALSE(IsEvenCut(units, {1, 4, 7, 10}));  // 1, 3, 3, 3
  EXPECT_FALSE(IsEvenCut(units, {4, 5, 7, 10}));  // 3 layers and 1
}

}  // namespace
}  // namespace heddle
