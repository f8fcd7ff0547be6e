#include "host/data/input_use.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "host/data/testing.h"
#include "host/data/token_inputs.h"

namespace heddle {
namespace {

using testing::HasSubstr;

ValueId Input(const Graph& graph, const std::string& name) {
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    if (graph.value(id).name == name) return id;
  }
  return {};
}

// The shift of the only use of the labels as such.
int64_t LabelShift(const Graph& graph) {
  std::vector<InputUse> uses = UsesOf(graph, Input(graph, "labels"));
  EXPECT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].kind, InputUse::Kind::kLabel);
  EXPECT_EQ(uses[0].bound, 256);
  return uses[0].shift;
}

// labels[1:] against logits[:-1], as Hugging Face models did for years.
const std::string kSliced =
    "%z: f32[2,3,256] = Slice(%logits) {axes=[1], ends=[3], starts=[0], steps=[1]}\n"
    "%y: i64[2,3] = Slice(%labels) {axes=[1], ends=[4], starts=[1], steps=[1]}\n";
// Labels padded with the ignored one, then cut, as they do since 2024.
const std::string kPadded =
    "%z: f32[2,4,256] = Identity(%logits)\n"
    "%p: i64[2,5] = Pad(%labels) {mode=\"constant\", pads=[0, 0, 0, 1], value=-100.0}\n"
    "%y: i64[2,4] = Slice(%p) {axes=[1], ends=[5], starts=[1], steps=[1]}\n";
const std::string kSplit =
    "%z: f32[2,3,256] = Slice(%logits) {axes=[1], ends=[3], starts=[0], steps=[1]}\n"
    "%head: i64[2,1], %y: i64[2,3] = Split(%labels) {axis=1, sizes=[1, 3]}\n";

TEST(InputUse, PlainLabelsAreNotShifted) {
  Graph graph = PlainModel();
  EXPECT_EQ(LabelShift(graph), 0);
  std::vector<InputUse> uses = UsesOf(graph, Input(graph, "input_ids"));
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].kind, InputUse::Kind::kTable);
  EXPECT_EQ(uses[0].bound, 256);
}

TEST(InputUse, ShiftsOfTheGraphAreSeen) {
  EXPECT_EQ(LabelShift(LanguageModel(2, 256, 3, kSliced)), 1);
  EXPECT_EQ(LabelShift(LanguageModel(2, 256, 4, kPadded)), 1);
  EXPECT_EQ(LabelShift(LanguageModel(2, 256, 3, kSplit)), 1);
}

TEST(InputUse, WhatKeepsTheAlignmentIsNoShift) {
  // Both lose their first element.
  EXPECT_EQ(LabelShift(LanguageModel(
                2, 256, 3,
                "%z: f32[2,3,256] = Slice(%logits) {axes=[1], ends=[4], starts=[1], steps=[1]}\n"
                "%y: i64[2,3] = Slice(%labels) {axes=[1], ends=[4], starts=[1], steps=[1]}\n")),
            0);
  // A slice of the classes is none of the sequence.
  EXPECT_EQ(LabelShift(LanguageModel(
                2, 256, 3,
                "%w: f32[2,4,256] = Slice(%logits) {axes=[2], ends=[256], starts=[0], steps=[1]}\n"
                "%z: f32[2,3,256] = Slice(%w) {axes=[1], ends=[3], starts=[0], steps=[1]}\n"
                "%y: i64[2,3] = Slice(%labels) {axes=[1], ends=[3], starts=[0], steps=[1]}\n")),
            0);
}

TEST(InputUse, RangesPassThroughMoves) {
  Graph graph = LanguageModel(2, 100, 3,
                              "%z: f32[2,3,100] = Slice(%logits) {axes=[1], ends=[3], starts=[0], "
                              "steps=[1]}\n%y: i64[2,3] = Slice(%labels) {axes=[1], ends=[4], "
                              "starts=[1], steps=[1]}\n");
  InputRange range = RangeOf(graph, Input(graph, "labels"));
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 100);
  EXPECT_EQ(range.ignored, -100);
  EXPECT_EQ(RangeOf(graph, Input(graph, "input_ids")).low, 0);
}

TEST(TokenInputs, NextTokensUnlessTheGraphShifts) {
  TokenInputs plain = AssignTokens(PlainModel(), "f");
  EXPECT_EQ(plain.window, 5);
  EXPECT_EQ(plain.stride, 4);
  EXPECT_EQ(plain.batch, 2);
  EXPECT_EQ(plain.vocabulary, 256);
  EXPECT_EQ(plain.inputs[1].first, 1);
  EXPECT_EQ(plain.labels, "labels are the tokens after those of input_ids");
  TokenInputs shifted = AssignTokens(LanguageModel(2, 256, 3, kSliced), "f");
  EXPECT_EQ(shifted.window, 4);
  EXPECT_EQ(shifted.inputs[1].first, 0);
  EXPECT_EQ(shifted.labels, "labels are the tokens of input_ids (the model shifts them by 1)");
}

TEST(TokenInputs, TheElementTypeBoundsTheVocabulary) {
  EXPECT_EQ(AssignTokens(PlainModel(2, 70'000, "i32"), "f").vocabulary, 70'000);
}

// An encoder that reads `ids` and a decoder that reads what `decoder` says, with labels of 2.
std::string TwoTables(const std::string& inputs, const std::string& decoder) {
  return inputs +
         "param %wte: f32[50,8]\n"
         "%e: f32[2,3,8] = Gather(%wte, %ids) {axis=0}\n"
         "%s: f32[2,1,8] = ReduceSum(%e) {axes=[1], keepdims=1}\n" +
         decoder +
         "%d: f32[2,2,8] = Gather(%wte, %dec) {axis=0}\n"
         "%h: f32[2,2,8] = Add(%d, %s)\n"
         "%logits: f32[2,2,50] = Linear(%h, %wte) {transpose_weight=1}\n"
         "%flat: f32[4,50] = Reshape(%logits) {shape=[4, 50]}\n"
         "%l: i64[4] = Reshape(%labels) {shape=[4]}\n"
         "%loss: f32[] = CrossEntropy(%flat, %l) {reduction=\"sum\"}\n";
}

TEST(TokenInputs, EncoderThenDecoder) {
  Graph graph = ModelFromText(
      TwoTables("input %dec: i64[2,2]\ninput %labels: i64[2,2]\ninput %ids: i64[2,3]\n", ""));
  TokenInputs inputs = AssignTokens(graph, "f");
  EXPECT_EQ(inputs.stride, 5);
  EXPECT_EQ(inputs.window, 6);
  EXPECT_EQ(inputs.inputs[0].first, 3);  // as long as the labels, so the decoder
  EXPECT_EQ(inputs.inputs[1].first, 4);
  EXPECT_EQ(inputs.inputs[2].first, 0);
}

// A decoder that reads the labels moved by one behind a start token: labels are plain tokens.
TEST(TokenInputs, LabelsThatFeedTheDecoder) {
  Graph graph = ModelFromText(
      TwoTables("input %labels: i64[2,2]\ninput %ids: i64[2,3]\n",
                "%p: i64[2,3] = Pad(%labels) {mode=\"constant\", pads=[0, 1, 0, 0], value=0.0}\n"
                "%dec: i64[2,2] = Slice(%p) {axes=[1], ends=[2], starts=[0], steps=[1]}\n"));
  TokenInputs inputs = AssignTokens(graph, "f");
  EXPECT_EQ(inputs.stride, 5);
  EXPECT_EQ(inputs.window, 5);
  EXPECT_EQ(inputs.inputs[0].first, 3);
  EXPECT_EQ(inputs.inputs[1].first, 0);
  EXPECT_EQ(inputs.labels, "the model makes its own labels");
}

std::string AssignError(const std::string& inputs, const std::string& shape,
                        const std::string& op) {
  bool flat = std::count(shape.begin(), shape.end(), ',') == 1;
  std::string axes = flat ? "[0, 1]" : "[0, 1, 2]";
  try {
    AssignTokens(ModelFromText(inputs + "param %w: f32[7,7]\n%e: " + shape + " = " + op +
                               "\n%loss: f32[] = ReduceSum(%e) {axes=" + axes + ", keepdims=0}\n"),
                 "a.txt");
  } catch (const InputError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(TokenInputs, ModelsThatTakeNoText) {
  EXPECT_EQ(AssignError("input %pixels: f32[2,7]\n", "f32[2,7]", "MatMul(%pixels, %w)"),
            "a.txt: holds tokens, but input 'pixels' f32[2,7] of the model is not made of tokens; "
            "give its inputs in a .safetensors file");
  EXPECT_EQ(AssignError("input %ids: i64[2]\n", "f32[2,7]", "Gather(%w, %ids) {axis=0}"),
            "a.txt: gives a token per position, but input 'ids' i64[2] is not [batch, sequence]; "
            "give its inputs in a .safetensors file");
  EXPECT_THAT(AssignError("input %n: i64[2,7]\n", "f32[2,7]", "Cast(%n) {to=\"f32\"}"),
              HasSubstr("input 'n' i64[2,7] is neither tokens nor labels"));
  EXPECT_THAT(AssignError("input %mask: f32[2,7]\n", "f32[2,7]", "MatMul(%mask, %w)"),
              HasSubstr("the model reads none"));
  EXPECT_THAT(AssignError("input %a: i64[2,3]\ninput %b: i64[3,3]\n", "f32[2,3,7]",
                          "Gather(%w, %a) {axis=0}"),
              HasSubstr("inputs 'a' i64[2,3] and 'b' i64[3,3] differ in the batch"));
}

}  // namespace
}  // namespace heddle
