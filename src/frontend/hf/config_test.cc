#include "frontend/hf/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "frontend/hf/model_types.h"
#include "frontend/hf/testing.h"
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

// The counts that Hugging Face publishes for these models.
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
  EXPECT_THROW(LoadModel(Path("gpt2"), options), InputError);  // the model has 1024 positions
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
  EXPECT_THAT(
      ConfigError(R"({"model_type":"mamba"})"),
      HasSubstr(
          "'model_type' is 'mamba'; supported types are gpt2, llama, mistral, qwen2, mixtral, "
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

// Replacements for a value, of the same kind where it has one.
std::vector<Json> Mutations(const Json& value, bool deep) {
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) return {value == 1 ? 2 : 1};
  if (value.is_number()) return {value == 0.0 ? 0.5 : value.get<double>() / 2};
  if (value.is_string()) return {"zzz"};
  if (value.is_null()) return {1, true, "zzz", Json::array({"zzz"})};
  if (value.is_array()) return {Json::array(), Json::array({"zzz"})};
  std::vector<Json> all;
  if (!deep) all.push_back(Json::object());  // an empty group of parameters means the defaults
  Json more = value;
  more["zzz"] = 1;
  all.push_back(more);
  for (const auto& [key, child] : value.items()) {
    if (!deep) break;
    for (const Json& other : Mutations(child, deep)) {
      all.push_back(value);
      all.back()[key] = other;
    }
  }
  return all;
}

// Changing any key of a config changes the graph, is refused, or is listed with the reason why it does not matter.
TEST(HfConfig, NothingIsIgnored) {
  int mutations = 0;
  for (const char* name :
       {"bert-base", "gpt-neox-20b", "gpt2", "llama3-8b", "mistral-7b", "mixtral-8x7b", "opt-125m",
        "qwen2-0.5b", "t5-small", "tiny-llama", "tiny-mistral", "tiny-mixtral", "tiny-neox",
        "tiny-qwen2", "tiny-t5", "tiny-vit", "vit-base"}) {
    Json config = ParseJson(ReadFile(Path(name), 1 << 20), name);
    for (const char* key : {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers"}) {
      if (config.contains(key)) config[key] = 2;
    }
    std::string before = FingerprintOf(config);
    for (const auto& [key, value] : config.items()) {
      for (const Json& other : Mutations(value, key.starts_with("rope_"))) {
        if (other == value) continue;
        ++mutations;
        Json changed = config;
        changed[key] = other;
        try {
          if (FingerprintOf(changed) != before) continue;
          auto passed_over = PassedOverKeys(changed.dump(), "dir/config.json", {});
          auto found = passed_over.find(key);
          ASSERT_NE(found, passed_over.end())
              << name << ": " << key << " = " << other << " is ignored";
          EXPECT_NE(found->second, "") << key;
        } catch (const InputError& error) {
          EXPECT_THAT(error.what(), HasSubstr("dir/config.json: ")) << key;
        }
      }
    }
  }
  EXPECT_GT(mutations, 300);
}

TEST(HfConfig, TablesHaveEveryKeyOnce) {
  for (const ModelType& type : ModelTypes()) {
    std::map<std::string_view, int> own;
    for (const FixedKey& key : type.fixed) ++own[key.name];
    for (const IrrelevantKey& key : type.irrelevant) {
      ++own[key.name];
      EXPECT_NE(key.reason, "") << key.name;
    }
    for (const auto& [name, count] : own) EXPECT_EQ(count, 1) << type.name << " " << name;
  }
  std::map<std::string_view, int> common;
  for (const FixedKey& key : CommonFixedKeys()) ++common[key.name];
  for (const IrrelevantKey& key : CommonIrrelevantKeys()) {
    ++common[key.name];
    EXPECT_NE(key.reason, "") << key.name;
  }
  for (const auto& [name, count] : common) EXPECT_EQ(count, 1) << name;
}

// Compares with cos(p theta^(-2i/d)) computed by another formula, and checks the epsilon of every norm.
TEST(HfConfig, RotaryBaseAndEpsilonAreThoseOfTheFile) {
  Json config = SmallConfigs().at("llama");
  config.update({{"rope_theta", 500000.0}, {"rms_norm_eps", 3e-5}});
  Graph graph = ParseHfConfig(config.dump(), "dir/config.json", {});
  int64_t d = 8, checked = 0, norms = 0;
  for (ValueId id : graph.ValuesOf(ValueKind::kConstant)) {
    const Value& value = graph.value(id);
    bool cos = value.name == "rotary.cos";
    if (!cos && value.name != "rotary.sin") continue;
    ASSERT_EQ(value.type.shape, (Shape{1, 1, 64, d}));
    for (int64_t p = 0; p < 64; ++p) {
      for (int64_t i = 0; i < d; ++i) {
        double angle = static_cast<double>(p) *
                       std::exp(-std::log(500000.0) * static_cast<double>(2 * (i % (d / 2))) /
                                static_cast<double>(d));
        EXPECT_NEAR(value.data->as<float>()[static_cast<size_t>(p * d + i)],
                    cos ? std::cos(angle) : std::sin(angle), 1e-5);
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 2 * 64 * d);
  for (const Node& node : graph.nodes) {
    if (node.op != "RMSNorm") continue;
    EXPECT_EQ(std::get<double>(node.attributes.at("epsilon")), 3e-5);
    ++norms;
  }
  EXPECT_EQ(norms, 5);  // two per layer and the last one
}

std::map<double, int> DropoutsOf(const std::string& type, const Json& values,
                                 const ImportOptions& options = {}) {
  Json config = SmallConfigs().at(type);
  config.update(values);
  std::map<double, int> ratios;
  for (const Node& node : ParseHfConfig(config.dump(), "dir/config.json", options).nodes) {
    if (node.op == "Dropout") ++ratios[std::get<double>(node.attributes.at("ratio"))];
  }
  return ratios;
}

// Two layers each. Every layer has dropout of the probabilities, after attention and after the mlp.
TEST(HfConfig, DropoutIsInTheGraph) {
  using Ratios = std::map<double, int>;
  EXPECT_EQ(DropoutsOf("gpt2", {{"embd_pdrop", 0.25}, {"resid_pdrop", 0.5}, {"attn_pdrop", 0.125}}),
            (Ratios{{0.25, 1}, {0.5, 4}, {0.125, 2}}));
  EXPECT_EQ(DropoutsOf("gpt2", Json::object()), (Ratios{{0.1, 7}}));
  EXPECT_EQ(
      DropoutsOf("bert", {{"hidden_dropout_prob", 0.5}, {"attention_probs_dropout_prob", 0.25}}),
      (Ratios{{0.5, 5}, {0.25, 2}}));
  EXPECT_EQ(
      DropoutsOf("vit", {{"hidden_dropout_prob", 0.5}, {"attention_probs_dropout_prob", 0.25}}),
      (Ratios{{0.5, 5}, {0.25, 2}}));
  EXPECT_EQ(DropoutsOf("opt", {{"dropout", 0.5}, {"attention_dropout", 0.25}}),
            (Ratios{{0.5, 4}, {0.25, 2}}));
  EXPECT_EQ(DropoutsOf("llama", {{"attention_dropout", 0.25}}), (Ratios{{0.25, 2}}));
  EXPECT_EQ(DropoutsOf("gpt_neox", {{"hidden_dropout", 0.5}, {"attention_dropout", 0.25}}),
            (Ratios{{0.5, 5}, {0.25, 2}}));
  // Encoder: dropout at both ends and, per layer, of the probabilities, after attention, inside and after the mlp. The
  // decoder has attention twice.
  EXPECT_EQ(DropoutsOf("t5", {{"dropout_rate", 0.5}}), (Ratios{{0.5, 2 + 2 * 4 + 2 + 2 * 6}}));
  // Keys of the family take precedence; attention is one op again.
  ImportOptions options;
  options.dims = {{"dropout", 0}, {"embedding_dropout", 0}, {"attention_dropout", 0}};
  EXPECT_EQ(DropoutsOf("gpt2", Json::object(), options), Ratios{});
  EXPECT_THAT(FingerprintOf(SmallConfigs().at("gpt2"), options), HasSubstr("Attention"));
}

TEST(HfConfig, ExpertsThatComputeOtherwiseAreSaid) {
  for (const char* type : {"mixtral", "llama"}) {
    testing::internal::CaptureStderr();
    FingerprintOf(SmallConfigs().at(type));
    bool said = testing::internal::GetCapturedStderr().find(
                    "losses differ from those of transformers") != std::string::npos;
    EXPECT_EQ(said, std::string(type) == "mixtral");
  }
}

TEST(HfConfig, SequencesKeepToPositionsAndWindows) {
  ImportOptions longer;
  longer.dims = {{"seq", 128}};
  for (const char* type : {"gpt2", "opt"}) {
    EXPECT_THAT([&] { FingerprintOf(SmallConfigs().at(type), longer); },
                testing::ThrowsMessage<InputError>(HasSubstr("seq=128 is more than positions=64")))
        << type;
  }
  for (const char* type : {"llama", "mistral", "qwen2", "mixtral", "gpt_neox"}) {
    testing::internal::CaptureStderr();
    FingerprintOf(SmallConfigs().at(type), longer);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("--dim seq=128 is more than 'max_position_embeddings', which is 64"))
        << type;
  }
  // A window that covers the sequence changes nothing; the default window has 4096 tokens.
  Json mistral = SmallConfigs().at("mistral");
  mistral["max_position_embeddings"] = 8192;
  longer.dims = {{"seq", 4096}};
  EXPECT_NO_THROW(FingerprintOf(mistral, longer));
  longer.dims = {{"seq", 4097}};
  EXPECT_THAT([&] { FingerprintOf(mistral, longer); },
              testing::ThrowsMessage<InputError>(
                  HasSubstr("'sliding_window' is 4096, less than the 4097 tokens of a sequence")));
  mistral["sliding_window"] = nullptr;
  EXPECT_NO_THROW(FingerprintOf(mistral, longer));
}

}  // namespace
}  // namespace heddle
