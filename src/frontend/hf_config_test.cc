#include "frontend/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "frontend/load.h"
#include "ops/analysis.h"

namespace heddle {
namespace {

using testing::HasSubstr;

std::string Path(const std::string& name) {
  return HEDDLE_TEST_DATA "/hf/" + name + "/config.json";
}

std::string ConfigError(const std::string& text) {
  try {
    ParseHfConfig(text, "dir/config.json", {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// The counts that Hugging Face gives for these models.
TEST(HfConfig, ParametersAreThoseOfTheModels) {
  const std::map<std::string, int64_t> known = {
      {"gpt2", 124439808},        {"llama3-8b", 8030261248},     {"qwen2-0.5b", 494032768},
      {"mistral-7b", 7241732096}, {"mixtral-8x7b", 46702792704}, {"gpt-neox-20b", 20554567680},
      {"opt-125m", 125239296},    {"bert-base", 109514298},      {"t5-small", 60506624},
      {"vit-base", 86567656},
  };
  for (const auto& [name, count] : known) {
    Graph graph = LoadModel(Path(name));
    EXPECT_EQ(graph.name, name);
    EXPECT_EQ(Measure(graph).parameters, count) << name;
  }
}

TEST(HfConfig, DimsGiveBatchAndSequence) {
  EXPECT_EQ(LoadModel(Path("llama3-8b")).values[0].type.shape, (Shape{8, 2048}));
  EXPECT_EQ(LoadModel(Path("gpt2")).values[0].type.shape, (Shape{8, 1024}));
  ImportOptions options;
  options.dims = {{"batch", 2}, {"seq", 96}};
  EXPECT_EQ(LoadModel(Path("mixtral-8x7b"), options).values[0].type.shape, (Shape{2, 96}));
  options.dims = {{"seq", 4096}};
  EXPECT_THROW(LoadModel(Path("gpt2"), options), InputError);  // has 1024 positions
  options.dims = {{"time", 4}};
  EXPECT_THROW(LoadModel(Path("gpt2"), options), InputError);
}

TEST(HfConfig, ParametersAreNamedAsInCheckpoints) {
  Graph graph = LoadModel(Path("opt-125m"));
  std::vector<std::string> names;
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) names.push_back(graph.value(id).name);
  EXPECT_THAT(names,
              testing::IsSupersetOf(
                  {"model.decoder.embed_tokens.weight", "model.decoder.embed_positions.weight",
                   "model.decoder.layers.11.self_attn.q_proj.weight",
                   "model.decoder.layers.11.fc2.bias", "model.decoder.final_layer_norm.weight"}));
}

TEST(HfConfig, MistakesAreOneLineWithFileAndKey) {
  const std::string llama =
      R"("model_type":"llama","hidden_size":64,"num_hidden_layers":1,"intermediate_size":32,"vocab_size":9)";
  EXPECT_EQ(ConfigError("{}"), "dir/config.json: 'model_type' is missing");
  EXPECT_EQ(ConfigError("[]"), "dir/config.json: expected an object with a model's configuration");
  EXPECT_THAT(ConfigError("{"), HasSubstr("dir/config.json:"));
  EXPECT_THAT(ConfigError(R"({"model_type":"mamba"})"),
              HasSubstr("'model_type' is 'mamba'; known are gpt2, llama, mistral, qwen2, mixtral, "
                        "gpt_neox, opt"));
  EXPECT_EQ(ConfigError(R"({"model_type":3})"), "dir/config.json: 'model_type' is 3, not a text");
  EXPECT_EQ(ConfigError("{" + llama + "}"), "dir/config.json: 'num_attention_heads' is missing");
  EXPECT_EQ(ConfigError("{" + llama + R"(,"num_attention_heads":"4"})"),
            "dir/config.json: 'num_attention_heads' is \"4\", not a whole number");
  EXPECT_EQ(
      ConfigError("{" + llama + R"(,"num_attention_heads":5})"),
      "dir/config.json: 'hidden_size' is 64, not a multiple of 'num_attention_heads', which is 5");
  EXPECT_EQ(ConfigError("{" + llama + R"(,"num_attention_heads":4,"num_key_value_heads":3})"),
            "dir/config.json: 'num_attention_heads' is 4, not a multiple of 'num_key_value_heads', "
            "which is 3");
  for (const char* value : {"0", "-4", "99999999999", "18446744073709551615"}) {
    EXPECT_EQ(ConfigError("{" + llama + R"(,"num_attention_heads":)" + value + "}"),
              std::string("dir/config.json: 'num_attention_heads' is ") + value +
                  ", not from 1 to 1073741824");
  }
  EXPECT_THAT(ConfigError("{" + llama + R"(,"num_attention_heads":4,"hidden_act":"tanh"})"),
              HasSubstr("'hidden_act' is \"tanh\""));
  EXPECT_THAT(ConfigError("{" + llama + R"(,"num_attention_heads":4,"tie_word_embeddings":1})"),
              HasSubstr("'tie_word_embeddings' is 1"));
  EXPECT_THAT(ConfigError(R"({"model_type":"vit","patch_size":15})"),
              HasSubstr("'image_size' is 224"));
  EXPECT_THAT(ConfigError(R"({"model_type":"gpt2","n_layer":1000000})"),
              HasSubstr("dir/config.json: layers=1000000"));
}

}  // namespace
}  // namespace heddle
