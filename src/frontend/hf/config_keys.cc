#include "frontend/hf/config_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace heddle {
namespace {

constexpr std::string_view kBookkeeping = "bookkeeping";
constexpr std::string_view kGeneration = "generation only";
constexpr std::string_view kOutputs = "it selects outputs besides the loss";
constexpr std::string_view kTokens = "it is the id of a token, and batches contain their tokens";
constexpr std::string_view kPrecision = "the plan determines the precision";
constexpr std::string_view kKernels = "it selects kernels that compute the same";
constexpr std::string_view kMemory = "the plan determines what is kept and recomputed";

}  // namespace

const std::vector<IrrelevantKey>& CommonIrrelevantKeys() {
  static const std::vector<IrrelevantKey> keys = {
      {"_name_or_path", kBookkeeping},
      {"name_or_path", kBookkeeping},
      {"_commit_hash", kBookkeeping},
      {"transformers_version", kBookkeeping},
      {"transformers.js_config", kBookkeeping},
      {"unsloth_version", kBookkeeping},
      {"unsloth_fixed", kBookkeeping},
      {"tokenizer_class", kBookkeeping},
      {"finetuning_task", kBookkeeping},
      {"language", kBookkeeping},

      {"torch_dtype", kPrecision},
      {"dtype", kPrecision},
      {"use_bfloat16", kPrecision},
      {"torchscript", kKernels},
      {"xla_device", kKernels},
      {"attn_implementation", kKernels},
      {"_attn_implementation", kKernels},
      {"_attn_implementation_autoset", kKernels},
      {"_flash_attn_2_enabled", kKernels},
      {"experts_implementation", kKernels},
      {"_experts_implementation", kKernels},
      {"chunk_size_feed_forward", "it sets how many rows are computed at once"},
      {"gradient_checkpointing", kMemory},

      {"use_cache", kGeneration},
      {"output_past", kGeneration},
      {"return_dict", kOutputs},
      {"use_return_dict", kOutputs},
      {"output_hidden_states", kOutputs},
      {"output_attentions", kOutputs},
      {"tf_legacy_loss", "TensorFlow only"},

      {"bos_token_id", kTokens},
      {"eos_token_id", kTokens},
      {"sep_token_id", kTokens},
      {"mask_token_id", kTokens},
      {"decoder_start_token_id", kTokens},
      {"pad_token_id", "batches have no padding"},
      {"prefix", "it is text before a prompt"},
      {"task_specific_params", kGeneration},

      {"max_length", kGeneration},
      {"min_length", kGeneration},
      {"max_new_tokens", kGeneration},
      {"do_sample", kGeneration},
      {"early_stopping", kGeneration},
      {"num_beams", kGeneration},
      {"num_beam_groups", kGeneration},
      {"diversity_penalty", kGeneration},
      {"temperature", kGeneration},
      {"top_k", kGeneration},
      {"top_p", kGeneration},
      {"typical_p", kGeneration},
      {"repetition_penalty", kGeneration},
      {"length_penalty", kGeneration},
      {"no_repeat_ngram_size", kGeneration},
      {"encoder_no_repeat_ngram_size", kGeneration},
      {"bad_words_ids", kGeneration},
      {"num_return_sequences", kGeneration},
      {"output_scores", kGeneration},
      {"return_dict_in_generate", kGeneration},
      {"forced_bos_token_id", kGeneration},
      {"forced_eos_token_id", kGeneration},
      {"remove_invalid_values", kGeneration},
      {"exponential_decay_length_penalty", kGeneration},
      {"suppress_tokens", kGeneration},
      {"begin_suppress_tokens", kGeneration},

      {"initializer_range", "it describes initial weights, which heddle draws by its own rule"},
      {"initializer_factor", "it describes initial weights, which heddle draws by its own rule"},
      {"init_std", "it describes initial weights, which heddle draws by its own rule"},

      {"id2label", "there is no classifier"},
      {"label2id", "it has names of classes"},
      {"num_labels", "there is no classifier"},
      {"problem_type", "there is no classifier"},
      {"classifier_dropout", "there is no classifier"},
  };
  return keys;
}

const std::vector<FixedKey>& CommonFixedKeys() {
  static const std::vector<FixedKey> keys = {
      {"is_encoder_decoder", {false, nullptr}, "a model without an encoder of its own"},
      {"is_decoder", {false, nullptr}, "a model that is not the decoder of another"},
      {"add_cross_attention", {false, nullptr}, "layers without cross-attention"},
      {"cross_attention_hidden_size", {nullptr}, "layers without cross-attention"},
      {"tie_encoder_decoder", {false, nullptr}, "encoder and decoder with weights of their own"},
      {"pruned_heads", {nullptr, Json::object()}, "all heads of a layer"},
      {"quantization_config", {nullptr}, "unquantized weights"},
      {"auto_map", {nullptr}, "the classes of transformers, without code of the model's own"},
  };
  return keys;
}

void AccountFor(const ConfigFile& config, const std::vector<FixedKey>& fixed) {
  for (const FixedKey& key : fixed) {
    if (!config.Given(key.name) || config.IsAccountedFor(key.name)) continue;
    const Json* found = config.Find(key.name);
    const Json value = found == nullptr ? Json() : *found;
    if (std::find(key.values.begin(), key.values.end(), value) != key.values.end()) continue;
    std::vector<std::string> accepted;
    for (const Json& good : key.values) accepted.push_back(ShortText(good));
    config.Refuse(
        key.name, value,
        fmt::format("but heddle builds {}: only {} is accepted; export the model to ONNX instead",
                    key.meaning, fmt::join(accepted, " or ")));
  }
}

void AccountFor(const ConfigFile& config, const std::vector<IrrelevantKey>& irrelevant) {
  for (const IrrelevantKey& key : irrelevant) {
    if (!config.IsAccountedFor(key.name)) config.PassOver(key.name, key.reason);
  }
}

}  // namespace heddle
