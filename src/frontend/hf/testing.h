// Shared by the tests of Hugging Face configurations: a small configuration of every model type, and fingerprints for
// comparing graphs.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "frontend/hf/config.h"
#include "graph/text.h"

namespace heddle {

// A small model of every type, into which tests merge values.
inline const std::map<std::string, Json>& SmallConfigs() {
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

// Everything that determines what the graph computes, constants included.
inline std::string Fingerprint(const Graph& graph) {
  std::string text = ToText(graph);
  for (const Value& value : graph.values) {
    if (!value.data) continue;
    const auto& bytes = value.data->data;
    std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text += " " + std::to_string(std::hash<std::string_view>()(view));
  }
  return text;
}

inline std::string FingerprintOf(const Json& config, const ImportOptions& options = {}) {
  return Fingerprint(ParseHfConfig(config.dump(), "dir/config.json", options));
}

}  // namespace heddle
