// Tests every error message for a text that cannot be read, with its line and column, and the limits.
#include <gtest/gtest.h>

#include "base/testing.h"
#include "graph/text.h"

namespace heddle {
namespace {

std::string TextError(std::string_view text, const TextLimits& limits = {}) {
  return ErrorOf([&] { FromText(text, "m.heddle", limits); });
}

// `body` follows the lines "heddle 1" and "model", so it begins at line 3.
struct BadText {
  std::string body;
  std::string message;  // the text after "m.heddle:"

  friend void PrintTo(const BadText& bad, std::ostream* out) { *out << bad.body; }
};

class BadBodyTest : public testing::TestWithParam<BadText> {};

TEST_P(BadBodyTest, SaysWhereAndWhat) {
  EXPECT_EQ(TextError("heddle 1\nmodel \"m\"\n" + GetParam().body),
            "m.heddle:" + GetParam().message);
}

const BadText kBadBodies[] = {
    {"", "3:1: the file ends without an output line; is it cut off?"},
    {"input %x: f32[2]\n", "4:1: the file ends without an output line; is it cut off?"},
    {"weights %x", "3:1: found \"weights\"; a line begins with input, param, const, output or %"},
    {"  ?", "3:3: found \"?\"; a line begins with input, param, const, output or %"},
    {"input x: f32[2]", "3:7: expected '%' before the name of a value, found \"x:\""},
    {"input %: f32[2]", "3:8: expected the name of a value, found \":\""},
    {"input %\"\": f32[2]", "3:8: expected the name of a value, found \":\""},
    {"input %x f32[2]", "3:10: expected ':' and a space between name and type, found \"f32\""},
    {"input %x:f32[2]", "3:13: expected ':' and a space between name and type, found \"[\""},
    {"input %\"x: f32[2]", "3:8: the string has no closing '\"'"},
    {"input %\"a\\q\": f32[2]",
     "3:10: unknown escape \"\\\\q\"; known are \\\" \\\\ \\n \\t \\r \\xNN"},
    {"input %\"a\\x1\": f32[2]",
     "3:10: unknown escape \"\\\\x\"; known are \\\" \\\\ \\n \\t \\r \\xNN"},
    {"input %" + std::string(1025, 'a') + ": f32[2]",
     "3:8: the name of a value has 1025 bytes, above 1024; shorten it"},
    {"input %x: float[2]",
     "3:11: expected an element type, found \"float\"; it is one of f32 f64 f16 bf16 i64 i32 i16 "
     "i8 "
     "u8 bool"},
    {"input %x: f32", "3:14: expected '[' before the shape, found the end of the line"},
    {"input %x: f32[2", "3:16: expected ']' or ',' in the shape, found the end of the line"},
    {"input %x: f32[2,]", "3:17: expected a dimension, found \"]\""},
    {"input %x: f32[-2]", "3:15: dimension -2 is negative"},
    {"input %x: f32[99999999999999999999]",
     "3:15: a dimension: \"99999999999999999999\" does not fit 64 bits"},
    {"input %x: f32[4294967296,4294967296]",
     "3:11: shape [4294967296,4294967296] has more elements than 63 bits can count"},
    {"input %x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
     "3:79: the shape has more than 32 dimensions"},
    {"input %x: f32[2] = 1",
     "3:18: expected the end of the line after the type, found \"=\"; begin a new line"},
    {"input %x: f32[2]\nparam %x: f32[2]", "4:7: %x is defined a second time; names are unique"},
    {"const %c: f32[]",
     "3:16: expected '=' and the content of the constant, found the end of the line"},
    {"const %c: f32[] = one",
     "3:19: expected a number, found \"one\"; write 0.5, 1e-05, inf, -inf or nan"},
    {"const %c: f32[] = spl", "3:19: expected splat, data, a number or a list, found \"spl\""},
    {"const %c: f32[] = date", "3:19: expected splat, data, a number or a list, found \"date\""},
    {"const %c: f32[] = 1e99", "3:19: a number: \"1e99\" is out of range"},
    {"const %c: f16[] = 65520", "3:19: 65520 is out of the range of f16"},
    {"const %c: i8[] = 128", "3:18: 128 is outside the range -128 to 127 of i8"},
    {"const %c: bool[] = 2", "3:20: 2 is outside the range 0 to 1 of bool"},
    {"const %c: i64[] = 1.5", "3:19: expected an integer for i64, found \"1.5\""},
    {"const %c: f32[2] = 1",
     "3:20: expected [...], splat or data for a constant of shape [2], found \"1\""},
    {"const %c: f32[2] = [1]", "3:20: 1 elements for a constant of shape [2], expected 2"},
    {"const %c: f32[2] = [1, 2, 3]", "3:20: 3 elements for a constant of shape [2], expected 2"},
    {"const %c: f32[2] = [1 2]", "3:23: expected ']' or ',' in the list, found \"2\""},
    {"const %c: f32[100000,100000] = splat 0",
     "3:38: a splat of f32[100000,100000] has 40000000000 bytes, above 67108864; give it a shape "
     "that "
     "broadcasts"},
    {"const %c: f32[2] = data xxh3:0123456789abcdef",
     "3:25: expected xxh64: and 16 digits 0-9 a-f, or none, found \"xxh3:0123456789abcdef\""},
    {"const %c: f32[2] = data xxh64:0123456789ABCDEF",
     "3:25: expected xxh64: and 16 digits 0-9 a-f, or none, found \"xxh64:0123456789ABCDEF\""},
    {"const %c: f32[2] = data",
     "3:24: expected xxh64: and 16 digits 0-9 a-f, or none, found the end of the line"},
    {"%y: f32[] = Neg(%x)", "3:17: %x is not defined; define it on an earlier line"},
    {"%y: f32[] = Neg(%y)", "3:17: %y is not defined; define it on an earlier line"},
    {"%y: f32[], %y: f32[] = Pair()", "3:12: %y is defined a second time; names are unique"},
    {"%y: f32[] Neg()", "3:11: expected '=' or ',' after a result, found \"Neg\""},
    {"%y: f32[] = ()", "3:13: expected the name of an op, found \"(\""},
    {"%y: f32[] = Neg", "3:16: expected '(' after the op, found the end of the line"},
    {"%y: f32[] = Neg(1)", "3:17: expected '%' before the name of a value, found \"1\""},
    {"input %x: f32[]\n%y: f32[] = Neg(%x %x)",
     "4:20: expected ')' or ',' in the operands, found \"%\""},
    {"%y: f32[] = A() {axis}", "3:22: expected '=' after the name of an attribute, found \"}\""},
    {"%y: f32[] = A() {axis=}", "3:23: expected a number, a string or a list, found \"}\""},
    {"%y: f32[] = A() {axis=true}", "3:23: expected a number, a string or a list, found \"true\""},
    {"%y: f32[] = A() {a=1, a=2}", "3:23: attribute \"a\" is given twice"},
    {"%y: f32[] = A() {a=1",
     "3:21: expected '}' or ',' in the attributes, found the end of the line"},
    {"%y: f32[] = A() {a=[]}",
     "3:22: an empty list needs its kind, found \"}\"; write []i for integers or []f for floats"},
    {"%y: f32[] = A() {a=[1, 2.0]}",
     "3:24: \"2.0\" is a float in a list of integers; write either all or none of them with a "
     "point"},
    {"%y: f32[] = A() {a=[1.0, 2]}",
     "3:26: expected a float, found \"2\"; write it with a point, as in 1.0"},
    {"%y: f32[] = A() {a=1.0.0}",
     "3:20: expected a float, found \"1.0.0\"; write 0.5, 1e-05, inf, -inf or nan"},
    {"%y: f32[] = A() {a=1e999}", "3:20: a float: \"1e999\" is out of range"},
    {"%y: f32[] = A() {a=[[1]]}", "3:21: expected an integer, found \"[\""},
    {"%y: f32[] = A() {a=1} x",
     "3:23: expected the end of the line after the node, found \"x\"; begin a new line"},
    {"output", "3:7: expected '%' before the name of a value, found the end of the line"},
    {"input %x: f32[]\noutput %x\noutput %x",
     "5:1: found \"output\" after the output line, which must be the last"},
};

INSTANTIATE_TEST_SUITE_P(Texts, BadBodyTest, testing::ValuesIn(kBadBodies));

TEST(TextTest, BadBeginnings) {
  EXPECT_EQ(TextError(""), "m.heddle:1:1: the file ends without its first line, \"heddle 1\"");
  EXPECT_EQ(TextError("PK\x03\x04"),
            "m.heddle:1:1: this is not a heddle text: it begins with \"PK\", not \"heddle 1\"");
  EXPECT_EQ(TextError("heddle"),
            "m.heddle:1:7: expected the version after heddle, found the end of the line");
  EXPECT_EQ(TextError("heddle 2"),
            "m.heddle:1:8: version 2 of the text form is unknown; this program reads version 1");
  EXPECT_EQ(TextError("heddle 1 x"),
            "m.heddle:1:10: expected the end of the line after the version, found \"x\"; begin a "
            "new line");
  EXPECT_EQ(TextError("heddle 1\n"), "m.heddle:2:1: the file ends without a line model \"NAME\"");
  EXPECT_EQ(TextError("heddle 1\ninput %x: f32[]"),
            "m.heddle:2:1: expected model \"NAME\", found \"input\"");
  EXPECT_EQ(TextError("heddle 1\nmodel tiny"),
            "m.heddle:2:7: expected '\"' before a string, found \"tiny\"");
  EXPECT_EQ(TextError("heddle 1\nmodel \"" + std::string(1025, 'm') + "\""),
            "m.heddle:2:7: the name of the model has 1025 bytes, above 1024; shorten it");
}

TEST(TextTest, Limits) {
  const std::string start = "heddle 1\nmodel \"m\"\n";
  EXPECT_EQ(TextError(start + "input %x: f32[]" + std::string(90, ' '), {.line_bytes = 100}),
            "m.heddle:3:1: the line has 105 bytes, above 100");
  EXPECT_EQ(TextError(start + "input %x: f32[]\ninput %y: f32[]\n", {.values = 1}),
            "m.heddle:4:7: the file has more than 1 values");
  EXPECT_EQ(TextError(start + "const %a: u8[8] = splat 1\nconst %b: u8[8] = splat 1\n"
                              "const %c: u8[8] = splat 2\n",
                      {.all_splat_bytes = 15}),
            "m.heddle:5:25: the splats of this file have more than 15 bytes together; give them "
            "shapes that broadcast");
}

}  // namespace
}  // namespace heddle
