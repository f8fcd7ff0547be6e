// The effect of values of every key on the graph: a table of values with a part of the expected error, or with whether
// the graph stays the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "frontend/hf/model_types.h"
#include "frontend/hf/testing.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr const char* kDecoders[] = {"gpt2",    "llama",    "mistral", "qwen2",
                                     "mixtral", "gpt_neox", "opt"};
constexpr const char* kLlamas[] = {"llama", "mistral", "qwen2", "mixtral"};

struct KeyCase {
  std::vector<std::string> types;
  std::string values;  // merged into the small model
  // A part of the error, or where the values are accepted, whether the graph is the "same" as without them or an
  // "other" one.
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
      // Keys of every type.
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
      {{"mistral", "mixtral"}, R"({"sliding_window":63})", "other"},  // sequences become shorter
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
      // Dropout. A missing key has the default of transformers.
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
      // Null means as many as heads, but a missing key does not: the defaults of these types are 8 and 32.
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

}  // namespace
}  // namespace heddle
