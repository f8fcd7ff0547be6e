#include "frontend/hf/model_types.h"

#include <fmt/format.h>

#include "frontend/hf/translations.h"

namespace heddle {

Translation& Translation::Set(std::string key, int64_t value) {
  values.emplace_back(std::move(key), fmt::format("{}", value));
  return *this;
}

Translation& Translation::Set(std::string key, bool value) {
  return Set(std::move(key), int64_t{value});
}

Translation& Translation::Set(std::string key, double value) {
  values.emplace_back(std::move(key), fmt::format("{}", value));  // reads back as the same number
  return *this;
}

Translation& Translation::Set(std::string key, const char* value) {
  values.emplace_back(std::move(key), value);
  return *this;
}

double Translation::Number(std::string_view key, double fallback) const {
  for (auto it = values.rbegin(); it != values.rend(); ++it) {
    if (it->first == key) return std::stod(it->second);
  }
  return fallback;
}

const std::vector<ModelType>& ModelTypes() {
  static const IrrelevantKey always_causal = {
      "is_decoder", "tokens always attend only to themselves and earlier tokens"};
  static const FixedKey no_mlp_bias = {"mlp_bias", {false, nullptr}, "an mlp without biases"};
  static const FixedKey no_attention_bias = {
      "attention_bias", {false, nullptr}, "attention without biases"};
  static const FixedKey full_layers = {"layer_types", {nullptr}, "layers with equal attention"};
  static const std::vector<ModelType> types = {
      {"gpt2",
       {"GPT2LMHeadModel"},
       FromGpt2,
       {{"scale_attn_weights", {true}, "scores divided by the square root of a head's width"},
        {"scale_attn_by_inverse_layer_idx", {false}, "scores with the same scale in every layer"}},
       {always_causal,
        {"n_ctx", "'n_positions' is read"},
        {"reorder_and_upcast_attn", "it changes only the order and precision of the same products"},
        {"summary_activation", "it belongs to a classification head, which heddle does not build"},
        {"summary_first_dropout",
         "it belongs to a classification head, which heddle does not build"},
        {"summary_proj_to_labels",
         "it belongs to a classification head, which heddle does not build"},
        {"summary_type", "it belongs to a classification head, which heddle does not build"},
        {"summary_use_proj", "it belongs to a classification head, which heddle does not build"}}},
      {"llama",
       {"LlamaForCausalLM", "LLaMAForCausalLM"},
       FromLlama,
       {full_layers},
       {always_causal, {"pretraining_tp", "it changes only the order of the same sums"}}},
      {"mistral",
       {"MistralForCausalLM"},
       FromMistral,
       {no_mlp_bias, no_attention_bias, full_layers},
       {always_causal}},
      {"qwen2", {"Qwen2ForCausalLM"}, FromQwen2, {no_mlp_bias}, {always_causal}},
      {"mixtral",
       {"MixtralForCausalLM"},
       FromMixtral,
       {no_mlp_bias,
        no_attention_bias,
        full_layers,
        {"output_router_logits",
         {false, nullptr},
         "a loss without the auxiliary loss of the routers"},
        {"router_jitter_noise", {0.0, nullptr}, "routers without noise"}},
       {always_causal, {"router_aux_loss_coef", "'output_router_logits' is false"}}},
      {"gpt_neox",
       {"GPTNeoXForCausalLM"},
       FromNeox,
       {{"hidden_dropout_prob", {0.0, nullptr}, "what transformers reads as 'hidden_dropout'"},
        {"attention_probs_dropout_prob",
         {0.0, nullptr},
         "what transformers reads as 'attention_dropout'"}},
       {always_causal}},
      {"opt",
       {"OPTForCausalLM"},
       FromOpt,
       {{"layerdrop", {0.0, nullptr}, "models that run every layer in every step"},
        {"layer_norm_elementwise_affine", {true}, "norms with trained weights"},
        {"_remove_final_layer_norm", {false, nullptr}, "a norm after the last layer"},
        {"activation_dropout", {0.0, nullptr}, "no dropout inside the mlp"}},
       {always_causal}},
      {"bert",
       {"BertForMaskedLM"},
       FromBert,
       {{"position_embedding_type", {"absolute", nullptr}, "a learned table of positions"},
        {"tie_word_embeddings", {true}, "a head tied to the token table"}},
       {{"directionality", "it belongs to a pooler, which heddle does not build"},
        {"pooler_fc_size", "it belongs to a pooler, which heddle does not build"},
        {"pooler_num_attention_heads", "it belongs to a pooler, which heddle does not build"},
        {"pooler_num_fc_layers", "it belongs to a pooler, which heddle does not build"},
        {"pooler_size_per_head", "it belongs to a pooler, which heddle does not build"},
        {"pooler_type", "it belongs to a pooler, which heddle does not build"}}},
      {"t5",
       {"T5ForConditionalGeneration", "T5WithLMHeadModel"},
       FromT5,
       {{"is_encoder_decoder", {true}, "an encoder and a decoder"}},
       {}},
      {"vit",
       {"ViTForImageClassification"},
       FromVit,
       {{"problem_type",
         {nullptr, "single_label_classification"},
         "a loss for one class per image"}},
       {{"encoder_stride", "it belongs to masked image modelling, which heddle does not build"},
        {"pooler_act", "it belongs to a pooler, which heddle does not build"},
        {"pooler_output_size", "it belongs to a pooler, which heddle does not build"},
        {"tie_word_embeddings", "there is no token table"}}},
  };
  return types;
}

}  // namespace heddle
