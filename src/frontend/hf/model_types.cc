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
  static const IrrelevantKey always_causal = {"is_decoder",
                                              "a token sees earlier ones only, always"};
  static const FixedKey no_mlp_bias = {"mlp_bias", {false, nullptr}, "an mlp without biases"};
  static const FixedKey no_attention_bias = {
      "attention_bias", {false, nullptr}, "attention without biases"};
  static const FixedKey full_layers = {"layer_types", {nullptr}, "layers that are alike"};
  static const std::vector<ModelType> types = {
      {"gpt2",
       {"GPT2LMHeadModel"},
       FromGpt2,
       {{"scale_attn_weights", {true}, "scores divided by the square root of a head's width"},
        {"scale_attn_by_inverse_layer_idx", {false}, "the same scale of scores in every layer"}},
       {always_causal,
        {"n_ctx", "'n_positions' is read"},
        {"reorder_and_upcast_attn", "order and precision of the same products"},
        {"summary_activation", "of a head that is not built"},
        {"summary_first_dropout", "of a head that is not built"},
        {"summary_proj_to_labels", "of a head that is not built"},
        {"summary_type", "of a head that is not built"},
        {"summary_use_proj", "of a head that is not built"}}},
      {"llama",
       {"LlamaForCausalLM", "LLaMAForCausalLM"},
       FromLlama,
       {full_layers},
       {always_causal, {"pretraining_tp", "order of the same sums"}}},
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
        {"output_router_logits", {false, nullptr}, "a loss without that of the routers"},
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
       {{"layerdrop", {0.0, nullptr}, "every layer in every step"},
        {"layer_norm_elementwise_affine", {true}, "norms with weights"},
        {"_remove_final_layer_norm", {false, nullptr}, "a norm after the last layer"},
        {"activation_dropout", {0.0, nullptr}, "no dropout inside the mlp"}},
       {always_causal}},
      {"bert",
       {"BertForMaskedLM"},
       FromBert,
       {{"position_embedding_type", {"absolute", nullptr}, "a table of positions"},
        {"tie_word_embeddings", {true}, "a head tied to the token table"}},
       {{"directionality", "of a pooler, which is not built"},
        {"pooler_fc_size", "of a pooler, which is not built"},
        {"pooler_num_attention_heads", "of a pooler, which is not built"},
        {"pooler_num_fc_layers", "of a pooler, which is not built"},
        {"pooler_size_per_head", "of a pooler, which is not built"},
        {"pooler_type", "of a pooler, which is not built"}}},
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
         "a loss of one class per image"}},
       {{"encoder_stride", "of masked images, which are not built"},
        {"pooler_act", "of a pooler, which is not built"},
        {"pooler_output_size", "of a pooler, which is not built"},
        {"tie_word_embeddings", "there is no token table"}}},
  };
  return types;
}

}  // namespace heddle
