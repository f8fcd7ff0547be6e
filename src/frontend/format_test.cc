#include "frontend/format.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "frontend/load.h"

namespace heddle {
namespace {

std::string_view NameOfFormat(const std::string& model) {
  const FormatDef* format = FindFormat(model);
  return format == nullptr ? "none" : format->name;
}

TEST(Format, EachIsWhole) {
  std::set<std::string_view> names;
  for (const FormatDef& format : AllFormats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_NE(format.help, "") << format.name;
    ASSERT_NE(format.recognise, nullptr) << format.name;
    ASSERT_NE(format.load, nullptr) << format.name;
  }
}

TEST(Format, ByName) {
  EXPECT_EQ(NameOfFormat("folder/m.onnx"), "onnx");
  EXPECT_EQ(NameOfFormat("m.onnx.gz"), "onnx");
  EXPECT_EQ(NameOfFormat("m.heddle"), "heddle");
  EXPECT_EQ(NameOfFormat("llama/config.json"), "hf-config");
  EXPECT_EQ(NameOfFormat("gpt3-175b:batch=4"), "built-in");
  EXPECT_EQ(NameOfFormat("m.pt"), "none");
  EXPECT_EQ(NameOfFormat(""), "none");
  EXPECT_EQ(NameOfFormat("folder/gpt2"), "none");
}

TEST(Format, ContentIsSurerThanANameAndTheFirstWins) {
  auto by_name = [](const std::string&) { return Recognition::kByName; };
  auto by_content = [](const std::string& model) {
    return model == "zip" ? Recognition::kByContent : Recognition::kNo;
  };
  const FormatDef formats[] = {
      {"a", "", "", by_name, nullptr},
      {"b", "", "", by_content, nullptr},
      {"c", "", "", by_content, nullptr},
  };
  EXPECT_EQ(FindFormat("zip", formats)->name, "b");
  EXPECT_EQ(FindFormat("other", formats)->name, "a");
  EXPECT_EQ(FindFormat("other", std::span(formats).subspan(1)), nullptr);
}

TEST(Format, WordsOfHelpAndErrors) {
  EXPECT_EQ(ModelHelp(),
            "an .onnx file (also gzipped), a .heddle file, a Hugging Face config.json, or a "
            "built-in such as gpt3-175b (see 'heddle models')");
  try {
    LoadModel("m.pt");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "model 'm.pt' is neither an .onnx, .heddle or config.json file nor a built-in "
                 "('heddle models' lists these)");
  }
}

TEST(Format, Files) {
  EXPECT_TRUE(IsModelFile("none/m.onnx"));
  EXPECT_TRUE(IsModelFile("m.json"));
  EXPECT_FALSE(IsModelFile("gpt2"));
  EXPECT_FALSE(IsModelFile("m.pt"));
}

}  // namespace
}  // namespace heddle
