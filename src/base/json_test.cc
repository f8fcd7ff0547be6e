#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace heddle {
namespace {

std::string ErrorOf(std::string_view text, std::size_t max_bytes = kMaxJsonBytes) {
  try {
    ParseJson(text, "a.json", max_bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string Nested(int depth) {
  const auto n = static_cast<std::size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

TEST(JsonTest, KeepsTheOrderOfKeys) {
  const Json json = ParseJson(R"({"z": 1, "a": [true, null, 2.5, "x"]})", "a.json");
  EXPECT_EQ(json.dump(), R"({"z":1,"a":[true,null,2.5,"x"]})");
}

TEST(JsonTest, SameKeyInDifferentObjectsIsFine) {
  EXPECT_EQ(ErrorOf(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})"), "no error");
}

TEST(JsonTest, RefusesAKeyGivenTwice) {
  EXPECT_EQ(ErrorOf("{\"a\": 1,\n  \"a\": 2}"), "a.json:2:5: key \"a\" is given twice; remove one");
  EXPECT_EQ(ErrorOf(R"({"b": {"a": {}, "a": 0}})"),
            "a.json:1:19: key \"a\" is given twice; remove one");
}

TEST(JsonTest, LimitsDepth) {
  EXPECT_EQ(ErrorOf(Nested(64)), "no error");
  EXPECT_EQ(ErrorOf(Nested(65)), "a.json:1:65: JSON is nested deeper than 64 levels");
  EXPECT_EQ(ErrorOf(std::string(1000000, '[')),
            "a.json:1:65: JSON is nested deeper than 64 levels");
}

TEST(JsonTest, LimitsSize) {
  EXPECT_EQ(ErrorOf("[1, 2]", 6), "no error");
  EXPECT_EQ(ErrorOf("[1, 2]", 5), "a.json: JSON of 6 B is larger than the limit of 5 B");
}

TEST(JsonTest, SaysWhereAndWhy) {
  EXPECT_EQ(ErrorOf("{\n  \"a\": nope\n}"),
            "a.json:2:9: not valid JSON: syntax error while parsing value - invalid literal; last "
            "read: '\"a\": no'");
  EXPECT_TRUE(ErrorOf("").starts_with("a.json:1:1: not valid JSON: "));
  EXPECT_TRUE(ErrorOf("[1] x").starts_with("a.json:1:5: not valid JSON: "));
  EXPECT_TRUE(ErrorOf("[1").starts_with("a.json:1:3: not valid JSON: "));
  EXPECT_TRUE(ErrorOf("[NaN]").starts_with("a.json:1:2: not valid JSON: "));
  EXPECT_TRUE(ErrorOf("[1e999]").starts_with("a.json:1:"));
  EXPECT_TRUE(ErrorOf("\"\xff\"").starts_with("a.json:1:2: not valid JSON: "));
}

TEST(JsonTest, ErrorsAreShort) {
  EXPECT_LT(ErrorOf("[\"" + std::string(100000, 'x')).size(), 300u);
  const std::string key(100000, 'k');
  EXPECT_LT(ErrorOf("{\"" + key + "\":1,\"" + key + "\":2}").size(), 300u);
}

}  // namespace
}  // namespace heddle
