#include "frontend/families/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::vector<Key>& Keys() {
  static const std::vector<Key> keys = {
      IntKey("layers", 12, "layers", 100),
      DerivedKey("ffn", "4 * hidden", "width"),
      CountKey("shared", 10, "shared"),
      RealKey("dropout", "0.1", 0, 1, "dropout"),
      FlagKey("tied", true, "tied"),
      DerivedFlag("qkv_bias", "bias", "bias"),
      ChoiceKey("mlp", "gelu", {"gelu", "relu"}, "activation"),
  };
  return keys;
}

std::string SettingsError(const std::string& text) {
  try {
    Settings(Keys(), ParseExpression(text).values);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Settings, DefaultsAreThoseOfTheKeys) {
  Settings settings(Keys(), {});
  EXPECT_EQ(settings.Int("layers"), 12);
  EXPECT_EQ(settings.Int("ffn", 77), 77);
  EXPECT_EQ(settings.Int("shared"), 0);
  EXPECT_DOUBLE_EQ(settings.Real("dropout"), 0.1);
  EXPECT_TRUE(settings.Flag("tied"));
  EXPECT_TRUE(settings.Flag("qkv_bias", true));
  EXPECT_EQ(settings.Choice("mlp"), "gelu");
}

TEST(Settings, LaterValuesReplaceEarlierOnes) {
  Settings settings(Keys(), {{"layers", "3"}, {"ffn", "5"}, {"layers", "4"}, {"qkv_bias", "0"}});
  EXPECT_EQ(settings.Int("layers"), 4);
  EXPECT_EQ(settings.Int("ffn", 77), 5);
  EXPECT_FALSE(settings.Flag("qkv_bias", true));
}

TEST(Settings, ExpressionsComeApart) {
  Expression expression = ParseExpression("gpt:layers=2,mlp=relu");
  EXPECT_EQ(expression.name, "gpt");
  EXPECT_THAT(expression.values, ElementsAre(Pair("layers", "2"), Pair("mlp", "relu")));
  EXPECT_TRUE(ParseExpression("gpt").values.empty());
  EXPECT_EQ(ParseExpression("").name, "");
}

TEST(Settings, MistakesAreNamed) {
  EXPECT_EQ(SettingsError("x:layer=2"), "unknown key 'layer'; did you mean 'layers'?");
  EXPECT_EQ(SettingsError("x:zzz=2"),
            "unknown key 'zzz'; choose one of layers, ffn, shared, dropout, tied, qkv_bias, mlp");
  EXPECT_EQ(SettingsError("x:layers=2,layers=2"), "layers is given twice");
  for (const char* value :
       {"0", "-1", "101", "2.5", "two", "99999999999999999999", "0x10", " 2", "2 "}) {
    EXPECT_EQ(SettingsError(std::string("x:layers=") + value),
              std::string("layers=") + value + " is not a whole number from 1 to 100");
  }
  for (const char* value : {"1", "-0.1", "nan", "inf", "1e400", "x"}) {
    EXPECT_THAT(SettingsError(std::string("x:dropout=") + value),
                HasSubstr("a number from 0 to below 1"));
  }
  EXPECT_EQ(SettingsError("x:shared=-1"), "shared=-1 is not a whole number from 0 to 10");
  EXPECT_EQ(SettingsError("x:tied=yes"), "tied=yes is not 0 or 1");
  EXPECT_EQ(SettingsError("x:mlp=tanh"), "mlp=tanh is not one of gelu, relu");
  for (const char* junk :
       {"x:", "x:,", "x:layers", "x:layers=", "x:=3", "x:layers=2,", "x:layers=2,,tied=1"}) {
    EXPECT_THAT(SettingsError(junk), HasSubstr("expected key=value")) << junk;
  }
  EXPECT_THAT(SettingsError("x:" + std::string(5000, 'a')), HasSubstr("longer than"));
}

}  // namespace
}  // namespace heddle
