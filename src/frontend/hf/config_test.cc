#include "frontend/hf/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "frontend/hf/model_types.h"
#include "frontend/load.h"
#include "graph/text.h"
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

// A small model of every type; values are merged into it.
const std::map<std::string, Json>& SmallConfigs() {
  static const std::map<std::string, Json> configs = [] {
    Json decoder = {{"hidden_size", 32},
                    {"num_hidden_layers", 2},
                    {"num_attention_heads", 4},
                    {"intermediate_size", 16},
                    {"vocab_size", 50},
                    {"num_key_value_heads", 2},
                    {"max_position_embeddings", 64}};
    Json encoder = {{"hidden_size", 32},
                    {"num_hidden_layers", 2},
                    {"num_attention_heads", 4},
                    {"intermediate_size", 16}};
    std::map<std::string, Json> all = {
        {"gpt2",
         {{"n_embd", 32}, {"n_layer", 2}, {"n_head", 4}, {"n_positions", 64}, {"vocab_size", 50}}},
        {"opt",
         {{"hidden_size", 32},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"ffn_dim", 16},
          {"vocab_size", 50},
          {"max_position_embeddings", 64}}},
        {"t5",
         {{"d_model", 32},
          {"num_layers", 2},
          {"num_heads", 4},
          {"d_ff", 16},
          {"vocab_size", 50},
          {"n_positions", 16}}},
        {"bert", encoder},
        {"vit", encoder},
    };
    for (const char* type : {"llama", "mistral", "qwen2", "mixtral"}) all[type] = decoder;
    decoder.erase("num_key_value_heads");
    decoder["num_attention_heads"] = 2;  // so that a quarter of a head has two frequencies
    all["gpt_neox"] = decoder;
    for (auto& [type, json] : all) json["model_type"] = type;
    return all;
  }();
  return configs;
}

// Everything the graph computes with, constants included.
std::string Fingerprint(const Graph& graph) {
  std::string text = ToText(graph);
  for (const Value& value : graph.values) {
    if (!value.data) continue;
    const auto& bytes = value.data->data;
    std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text += " " + std::to_string(std::hash<std::string_view>()(view));
  }
  return text;
}

std::string FingerprintOf(const Json& config, const ImportOptions& options = {}) {
  return Fingerprint(ParseHfConfig(config.dump(), "dir/config.json", options));
}

constexpr const char* kDecoders[] = {"gpt2",    "llama",    "mistral", "qwen2",
                                     "mixtral", "gpt_neox", "opt"};
constexpr const char* kLlamas[] = {"llama", "mistral", "qwen2", "mixtral"};

struct KeyCase {
  std::vector<std::string> types;
  std::string values;  // merged into the small model
  // Of the error; "same" or "other" where it is accepted and the graph is that without the values or another.
  std::string words;
};

std::vector<std::string> AllTypes() {
  std::vector<std::string> names;
  for (const ModelType& type : ModelTypes()) names.push_back(type.name);
  return names;
}

TEST(HfConfig, EveryValueIsUsedOrIrrelevantOrRefused) {
  const std::vector<std::string> all = AllTypes();
  const std::vector<std::string> llamas(std::begin(kLlamas), std::end(kLlamas));
  const std::vector<std::string> decoders(std::begin(kDecoders), std::end(kDecoders));
  const std::vector<KeyCase> cases = {
      // Of every type.
      {all,
       R"({"use_cache":false,"torch_dtype":"bfloat16","dtype":"float16","transformers_version":"3.0.2"})",
       "same"},
      {all,
       R"({"_name_or_path":"x","bos_token_id":3,"top_k":50,"chunk_size_feed_forward":4,"initializer_range":1})",
       "same"},
      {all, R"({"pruned_heads":{},"quantization_config":null,"cross_attention_hidden_size":null})",
       "same"},
      {all, R"({"pruned_heads":{"0":[1]}})",
       "'pruned_heads' is {\"0\":[1]}, but heddle builds all heads"},
      {all, R"({"quantization_config":{"bits":4}})", "'quantization_config' is {\"bits\":4}, but"},
      {all, R"({"auto_map":{"AutoModel":"m.M"}})", "'auto_map' is"},
      {all, R"({"add_cross_attention":true})", "'add_cross_attention' is true, but"},
      {all, R"({"architectures":["LlamaForSequenceClassification"]})",
       "'architectures' is [\"LlamaForSequenceClassification\"], but heddle builds"},
      {all, R"({"architectures":"x"})", "'architectures' is \"x\""},
      {all, R"({"architectures":null})", "same"},
      {all, R"({"logit_scale":0.5})", "'logit_scale' is 0.5: heddle does not know this key of a "},
      {all, R"({"a\nb":"c\nd"})", "'a\\nb' is \"c\\nd\": heddle does not know"},
      {decoders, R"({"id2label":{"0":"a"},"is_decoder":true})", "same"},
      {{"bert"}, R"({"is_decoder":true})", "'is_decoder' is true"},
      {{"llama", "bert", "vit"}, R"({"is_encoder_decoder":true})", "'is_encoder_decoder' is true"},
      {{"t5"}, R"({"is_encoder_decoder":true})", "same"},
      {{"t5"}, R"({"is_encoder_decoder":false})", "'is_encoder_decoder' is false"},
      // Rotary positions.
      {llamas, R"({"rope_theta":500000.0})", "other"},
      {{"llama", "mistral", "qwen2"}, R"({"rope_theta":10000})", "same"},
      {{"mixtral"}, R"({"rope_theta":1000000})", "same"},
      {llamas, R"({"rope_theta":0})", "'rope_theta' is 0, not from 1"},
      {llamas, R"({"rope_theta":"x"})", "'rope_theta' is \"x\", not a number"},
      {llamas, R"({"rope_scaling":null,"rope_parameters":null})", "same"},
      {llamas, R"({"rope_scaling":{"type":"default"}})", "same"},
      {llamas, R"({"rope_scaling":{"type":"linear","factor":2.0}})",
       "'rope_scaling.type' is \"linear\", but only \"default\""},
      {llamas, R"({"rope_scaling":{"rope_type":"dynamic","factor":2.0}})",
       "'rope_scaling.rope_type' is \"dynamic\""},
      {llamas, R"({"rope_scaling":{"factor":2.0}})", "'rope_scaling.factor' is 2.0"},
      {llamas, R"({"rope_parameters":{"rope_theta":77.0,"rope_type":"default"}})", "other"},
      {llamas, R"({"rope_parameters":{"rope_theta":77.0,"rope_type":"llama3","factor":8.0}})",
       "'rope_parameters.rope_type' is \"llama3\""},
      {llamas, R"({"rope_parameters":{"rope_theta":77.0,"rope_type":"yarn"}})",
       "'rope_parameters.rope_type' is \"yarn\""},
      {llamas, R"({"rope_parameters":{"full_attention":{"rope_theta":77.0}}})",
       "'rope_parameters.full_attention' is"},
      {llamas, R"({"rope_parameters":{"partial_rotary_factor":0.5}})",
       "'rope_parameters.partial_rotary_factor' is 0.5"},
      {llamas, R"({"rope_parameters":{"partial_rotary_factor":1.0}})", "same"},
      {llamas, R"({"rope_parameters":3})", "'rope_parameters' is 3, not an object"},
      {llamas, R"({"rope_theta":5.0,"rope_parameters":{"rope_theta":6.0}})",
       "'rope_parameters.rope_theta' is 6.0, but 'rope_theta' is 5"},
      {{"gpt_neox"}, R"({"rotary_emb_base":10000,"rope_theta":10000.0,"rotary_pct":0.25})", "same"},
      {{"gpt_neox"}, R"({"rotary_emb_base":500000})", "other"},
      {{"gpt_neox"}, R"({"rotary_pct":1.0})", "other"},
      {{"gpt_neox"}, R"({"rotary_pct":0})", "'rotary_pct' is 0, not above 0 and up to 1"},
      {{"gpt_neox"},
       R"({"rotary_emb_base":10000,"rope_theta":5.0})",
       "'rope_theta' is 5.0, but 'rotary_emb_base' is 10000"},
      {{"gpt_neox"},
       R"({"rope_parameters":{"rope_theta":10000,"partial_rotary_factor":0.25}})",
       "same"},
      {{"gpt_neox"}, R"({"rope_parameters":{"partial_rotary_factor":0.5}})", "other"},
      {{"gpt2", "opt", "bert", "t5", "vit"},
       R"({"rope_theta":5.0})",
       "'rope_theta' is 5.0: heddle does not know"},
      // Norms.
      {llamas, R"({"rms_norm_eps":1e-4})", "other"},
      {{"llama", "mistral", "qwen2"}, R"({"rms_norm_eps":1e-6})", "same"},
      {{"mixtral"}, R"({"rms_norm_eps":1e-5})", "same"},
      {{"gpt2", "t5"}, R"({"layer_norm_epsilon":1e-4})", "other"},
      {{"bert", "vit", "gpt_neox"}, R"({"layer_norm_eps":1e-4})", "other"},
      {{"bert", "vit"}, R"({"layer_norm_eps":1e-12})", "same"},
      {{"gpt_neox"}, R"({"layer_norm_eps":1e-5})", "same"},
      {{"gpt2"}, R"({"layer_norm_epsilon":1e-5})", "same"},
      {{"t5"}, R"({"layer_norm_epsilon":1e-6})", "same"},
      {llamas, R"({"rms_norm_eps":-1})", "'rms_norm_eps' is -1, not from 0 to below 1"},
      {llamas, R"({"layer_norm_eps":1e-5})", "'layer_norm_eps' is 1e-05: heddle does not know"},
      // Windows. The small models have sequences of 64 tokens.
      {{"llama"}, R"({"sliding_window":4096})", "'sliding_window' is 4096: heddle does not know"},
      {{"mistral", "mixtral"}, R"({"sliding_window":null})", "same"},
      {{"mistral", "mixtral"}, R"({"sliding_window":64})", "same"},
      {{"mistral", "mixtral"}, R"({"sliding_window":63})", "other"},  // shorter sequences
      {{"mistral", "mixtral"}, R"({"sliding_window":0})", "'sliding_window' is 0, not from 1"},
      {{"qwen2"}, R"({"sliding_window":8,"max_window_layers":0})", "same"},
      {{"qwen2"},
       R"({"use_sliding_window":true,"sliding_window":8,"max_window_layers":2})",
       "same"},
      {{"qwen2"},
       R"({"use_sliding_window":true,"sliding_window":8,"max_window_layers":0})",
       "other"},
      {{"qwen2"},
       R"({"use_sliding_window":true,"sliding_window":8,"max_window_layers":1})",
       "other"},
      {{"qwen2"}, R"({"layer_types":["full_attention","full_attention"]})", "same"},
      {{"qwen2"},
       R"({"layer_types":["full_attention","sliding_attention"]})",
       "'use_sliding_window' is false"},
      {{"qwen2"},
       R"({"layer_types":["full_attention","chunked_attention"]})",
       "'layer_types' is \"chunked_attention\""},
      {{"qwen2"}, R"({"layer_types":["full_attention"]})", "not a list of 2 layers"},
      {{"llama", "mistral", "mixtral"},
       R"({"layer_types":["full_attention","sliding_attention"]})",
       "'layer_types' is"},
      // Dropout. Missing means the default of transformers.
      {{"gpt2"}, R"({"resid_pdrop":0.1,"embd_pdrop":0.1,"attn_pdrop":0.1})", "same"},
      {{"gpt2"}, R"({"resid_pdrop":0.0})", "other"},
      {{"gpt2"}, R"({"embd_pdrop":0.0})", "other"},
      {{"gpt2"}, R"({"attn_pdrop":0})", "other"},
      {{"gpt2"}, R"({"attn_pdrop":1.0})", "'attn_pdrop' is 1.0, not from 0 to below 1"},
      {{"bert"}, R"({"hidden_dropout_prob":0.1,"attention_probs_dropout_prob":0.1})", "same"},
      {{"bert"}, R"({"attention_probs_dropout_prob":0.0})", "other"},
      {{"vit"}, R"({"hidden_dropout_prob":0.0,"attention_probs_dropout_prob":0.0})", "same"},
      {{"vit", "bert"}, R"({"hidden_dropout_prob":0.2})", "other"},
      {{"vit"}, R"({"attention_probs_dropout_prob":0.2})", "other"},
      {{"llama", "mistral", "qwen2", "mixtral", "gpt_neox", "opt"},
       R"({"attention_dropout":0.0})",
       "same"},
      {{"llama", "mistral", "qwen2", "mixtral", "gpt_neox", "opt"},
       R"({"attention_dropout":0.2})",
       "other"},
      {{"gpt_neox"}, R"({"hidden_dropout":0.2})", "other"},
      {{"gpt_neox"}, R"({"hidden_dropout_prob":0.2})", "'hidden_dropout_prob' is 0.2"},
      {{"opt"}, R"({"dropout":0.1,"activation_dropout":0.0,"layerdrop":0.0})", "same"},
      {{"opt"}, R"({"dropout":0.0})", "other"},
      {{"opt"}, R"({"activation_dropout":0.1})", "'activation_dropout' is 0.1"},
      {{"opt"}, R"({"layerdrop":0.1})", "'layerdrop' is 0.1"},
      {{"t5"}, R"({"dropout_rate":0.1})", "same"},
      {{"t5"}, R"({"dropout_rate":0.0})", "other"},
      // Biases, activations, heads.
      {{"llama"}, R"({"attention_bias":true})", "other"},
      {{"llama"}, R"({"mlp_bias":true})", "other"},
      {{"llama", "mistral", "mixtral"}, R"({"attention_bias":false,"mlp_bias":false})", "same"},
      {{"mistral", "mixtral"},
       R"({"attention_bias":true})",
       "'attention_bias' is true, but heddle builds attention without"},
      {{"mistral", "qwen2", "mixtral"}, R"({"mlp_bias":true})", "'mlp_bias' is true"},
      {{"gpt_neox"}, R"({"attention_bias":false})", "other"},
      {{"vit"}, R"({"qkv_bias":false})", "other"},
      {{"opt"}, R"({"enable_bias":false})", "other"},
      {{"opt"},
       R"({"layer_norm_elementwise_affine":false})",
       "'layer_norm_elementwise_affine' is false"},
      {{"opt"}, R"({"_remove_final_layer_norm":true})", "'_remove_final_layer_norm' is true"},
      {llamas, R"({"hidden_act":"gelu"})", "other"},
      {llamas, R"({"hidden_act":"relu"})", "'hidden_act' is \"relu\", neither silu nor gelu"},
      {{"bert", "vit", "gpt_neox"}, R"({"hidden_act":"gelu"})", "same"},
      {{"bert", "vit", "gpt_neox"}, R"({"hidden_act":"gelu_new"})", "other"},
      {{"bert", "vit", "gpt_neox"},
       R"({"hidden_act":"quick_gelu"})",
       "'hidden_act' is \"quick_gelu\""},
      {{"gpt2"}, R"({"activation_function":"gelu_pytorch_tanh"})", "same"},
      {{"gpt2"}, R"({"activation_function":"gelu"})", "other"},
      {{"gpt2"}, R"({"activation_function":"gelu_10"})", "'activation_function' is \"gelu_10\""},
      {{"gpt2"}, R"({"scale_attn_weights":true,"scale_attn_by_inverse_layer_idx":false})", "same"},
      {{"gpt2"}, R"({"scale_attn_weights":false})", "'scale_attn_weights' is false"},
      {{"gpt2"},
       R"({"scale_attn_by_inverse_layer_idx":true})",
       "'scale_attn_by_inverse_layer_idx' is true"},
      {{"gpt2", "opt", "t5", "llama", "mistral", "qwen2", "mixtral", "gpt_neox"},
       R"({"tie_word_embeddings":true})",
       ""},
      {{"bert"}, R"({"tie_word_embeddings":false})", "'tie_word_embeddings' is false"},
      {{"bert"},
       R"({"position_embedding_type":"relative_key"})",
       "'position_embedding_type' is \"relative_key\""},
      {{"t5"},
       R"({"feed_forward_proj":"gated-gelu","dense_act_fn":"gelu_new","is_gated_act":true})",
       "other"},
      {{"t5"}, R"({"dense_act_fn":"silu"})", "'dense_act_fn' is \"silu\""},
      {{"t5"}, R"({"feed_forward_proj":"gated-silu"})", "'feed_forward_proj' is \"gated-silu\""},
      {{"t5"}, R"({"scale_decoder_outputs":false})", "'scale_decoder_outputs' is false"},
      {{"mixtral"},
       R"({"output_router_logits":false,"router_aux_loss_coef":0.5,"router_jitter_noise":0.0})",
       "same"},
      {{"mixtral"},
       R"({"output_router_logits":true})",
       "'output_router_logits' is true, but heddle builds a loss without"},
      {{"mixtral"}, R"({"router_jitter_noise":0.1})", "'router_jitter_noise' is 0.1"},
      {{"vit"}, R"({"num_labels":2})", "same"},
      {{"vit"}, R"({"id2label":{"0":"a","1":"b","2":"c"},"num_labels":3})", "other"},
      {{"vit"},
       R"({"id2label":{"0":"a","1":"b","2":"c"},"num_labels":4})",
       "'num_labels' is 4, but 'id2label' has 3"},
      {{"vit"}, R"({"num_labels":1})", "regression"},
      {{"vit"},
       R"({"problem_type":"multi_label_classification"})",
       "'problem_type' is \"multi_label_classification\""},
      // Null is as many as heads, missing is not: these have 8 and 32.
      {{"mistral", "mixtral", "qwen2"}, R"({"num_key_value_heads":null,"head_dim":8})", "other"},
  };
  for (const KeyCase& test : cases) {
    for (const std::string& type : test.types) {
      Json config = SmallConfigs().at(type);
      std::string before = FingerprintOf(config);
      config.update(ParseJson(test.values, "test"));
      std::string what = type + " " + test.values;
      try {
        std::string after = FingerprintOf(config);
        if (test.words == "same") {
          EXPECT_EQ(after, before) << what;
        }
        if (test.words == "other") {
          EXPECT_NE(after, before) << what;
        }
        EXPECT_TRUE(test.words.empty() || test.words == "same" || test.words == "other")
            << what << " is accepted";
      } catch (const InputError& error) {
        EXPECT_THAT(error.what(), testing::StartsWith("dir/config.json: ")) << what;
        EXPECT_THAT(error.what(), HasSubstr(test.words)) << what;
      }
    }
  }
}

TEST(HfConfig, MissingKeyValueHeadsAreThoseOfTransformers) {
  for (auto [type, count] :
       {std::pair{"mistral", 8}, {"mixtral", 8}, {"qwen2", 32}, {"llama", 64}}) {
    Json config = SmallConfigs().at(type);
    config["num_attention_heads"] = 64;
    config["head_dim"] = 2;
    config["num_key_value_heads"] = count;
    std::string said = FingerprintOf(config);
    config.erase("num_key_value_heads");
    EXPECT_EQ(FingerprintOf(config), said) << type;
  }
}

// Other values in place of one: of the same kind where it has a kind.
std::vector<Json> Mutations(const Json& value, bool deep) {
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) return {value == 1 ? 2 : 1};
  if (value.is_number()) return {value == 0.0 ? 0.5 : value.get<double>() / 2};
  if (value.is_string()) return {"zzz"};
  if (value.is_null()) return {1, true, "zzz", Json::array({"zzz"})};
  if (value.is_array()) return {Json::array(), Json::array({"zzz"})};
  std::vector<Json> all;
  if (!deep) all.push_back(Json::object());  // an empty group of parameters is one of defaults
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

// Whoever changes a key of a config changes the graph, is refused, or is told why it does not matter.
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

// cos(p theta^(-2i/d)) by another formula, and the constant of every norm.
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
  EXPECT_EQ(norms, 5);  // two per layer and the last
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

// Two layers each. In every layer: of the probabilities, after attention, after the mlp.
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
  // Encoder: at both ends, per layer of the probabilities, after attention, inside and after the mlp; decoder: twice
  // attention.
  EXPECT_EQ(DropoutsOf("t5", {{"dropout_rate", 0.5}}), (Ratios{{0.5, 2 + 2 * 4 + 2 + 2 * 6}}));
  // Keys of the family decide where they are given; attention is one op again.
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
                    "losses are not those of transformers") != std::string::npos;
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
  // A window that a sequence fits into changes nothing; a missing one has 4096 tokens.
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
