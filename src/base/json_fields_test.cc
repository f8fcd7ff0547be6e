#include "base/json_fields.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing.h"

namespace heddle {
namespace {

constexpr std::string_view kKeys[] = {"size", "name", "rates", "more"};

class JsonFieldsTest : public testing::Test {
 protected:
  static JsonFields Fields(const Json& json) { return {json, "f.json", "", kKeys}; }
};

TEST_F(JsonFieldsTest, ReadsWhatIsThere) {
  Json json = ParseJson(R"({"size": 4, "name": "a", "rates": [1, 2.5], "more": {"x": 1}})", "f");
  JsonFields fields = Fields(json);
  EXPECT_EQ(fields.Int("size", 1, 4), 4);
  EXPECT_EQ(fields.Text("name"), "a");
  std::vector<double> rates;
  for (const JsonValue& at : fields.ValueOf("rates").List(2)) rates.push_back(at.Number());
  EXPECT_EQ(rates, (std::vector<double>{1, 2.5}));
  auto entries = fields.ValueOf("more").Entries(1);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].first, "x");
  EXPECT_EQ(entries[0].second.path(), "more.x");
}

TEST_F(JsonFieldsTest, ErrorsHaveFilePathValueAndRemedy) {
  Json json = ParseJson(R"({"size": 5, "name": "", "rates": [1, "b"], "more": {}})", "f");
  JsonFields fields = Fields(json);
  EXPECT_EQ(ErrorOf([&] { fields.Int("size", 1, 4); }), "f.json: size: 5: expected 1 to 4");
  EXPECT_EQ(ErrorOf([&] { fields.Text("name"); }), "f.json: name: \"\": expected a text in quotes");
  EXPECT_EQ(ErrorOf([&] { fields.ValueOf("rates").List(2)[1].Number(); }),
            "f.json: rates[1]: \"b\": expected a number");
  EXPECT_EQ(ErrorOf([&] { fields.ValueOf("rates").List(1); }),
            "f.json: rates: [1,\"b\"]: expected a list of at most 1");
  EXPECT_EQ(ErrorOf([&] { fields.ValueOf("size").Entries(1); }),
            "f.json: size: 5: expected an object of at most 1 fields");
  Json empty = Json::object();
  EXPECT_EQ(ErrorOf([&] { Fields(empty).Int("size", 1, 4); }), "f.json: size is missing");
}

TEST_F(JsonFieldsTest, RefusesKeysThatItDoesNotKnow) {
  Json json = ParseJson(R"({"sise": 4})", "f");
  EXPECT_EQ(ErrorOf([&] { Fields(json); }), "f.json: sise: unknown key: did you mean 'size'?");
}

TEST(JsonValue, NumbersThatFitNoInteger) {
  Json json = ParseJson("[18446744073709551615, -1, 1.0, 9223372036854775807]", "f");
  std::vector<JsonValue> list = JsonValue(json, "f", "at").List(4);
  EXPECT_FALSE(list[0].AsInt(0, INT64_MAX));
  EXPECT_FALSE(list[1].AsInt(0, INT64_MAX));
  EXPECT_FALSE(list[2].AsInt(0, INT64_MAX));
  EXPECT_EQ(list[3].AsInt(0, INT64_MAX), INT64_MAX);
  EXPECT_FALSE(list[1].AsPositive());
  EXPECT_EQ(list[2].AsPositive(), 1.0);
}

}  // namespace
}  // namespace heddle
