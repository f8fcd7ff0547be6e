#include "plan/sequence.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/analysis.h"

namespace heddle {
namespace {

TEST(Sequence, IsFollowedThroughLookupsAndReshapes) {
  Graph graph = FromText(R"(heddle 1
model "m"
input %ids: i64[4,32]
param %table: f32[100,8]
param %w: f32[8,8]
%e: f32[4,32,8] = Gather(%table, %ids) {axis=0}
%flat: f32[128,8] = Reshape(%e) {shape=[128, 8]}
%y: f32[128,8] = Linear(%flat, %w) {transpose_weight=1}
%groups: f32[16,8,8] = Reshape(%y) {shape=[16, 8, 8]}
%heads: f32[4,32,2,4] = Reshape(%e) {shape=[4, 32, 2, 4]}
%turned: f32[4,2,32,4] = Transpose(%heads) {perm=[0, 2, 1, 3]}
%sum: f32[4,2,4] = ReduceSum(%turned) {axes=[2], keepdims=0}
%after: f32[4,2,4] = Relu(%sum)
%loss: f32[] = ReduceSum(%after) {axes=[0, 1, 2], keepdims=0}
output %loss
)",
                         "m.heddle");
  Rules rules = MakeRules(graph);
  SequenceInfo info = FindSequence(graph, rules);
  ASSERT_TRUE(info.found);
  auto part = [&](size_t node, std::string_view factor) -> std::optional<SequencePart> {
    for (size_t f = 0; f < rules[node].factors.size(); ++f) {
      if (rules[node].factors[f].name == factor) return info.factors[node][f];
    }
    return SequencePart{-1, -1, -1};
  };
  EXPECT_EQ(part(0, "i1"), (SequencePart{1, 32, 1}));
  EXPECT_EQ(part(0, "i0"), std::nullopt);
  EXPECT_EQ(part(2, "i0"), (SequencePart{4, 32, 1}));  // tokens = batch x sequence
  EXPECT_EQ(part(3, "p0"), (SequencePart{4, 4, 1}));   // cut in groups: the outer piece
  EXPECT_EQ(part(5, "d1"), (SequencePart{1, 32, 1}));
  for (const auto& mark : info.factors[7]) EXPECT_EQ(mark, std::nullopt);  // summed
}

TEST(Sequence, ImagesHaveNone) {
  Graph graph = FromText(R"(heddle 1
model "m"
input %x: f32[4,32]
%loss: f32[] = ReduceSum(%x) {axes=[0, 1], keepdims=0}
output %loss
)",
                         "m.heddle");
  EXPECT_FALSE(FindSequence(graph, MakeRules(graph)).found);
}

}  // namespace
}  // namespace heddle
