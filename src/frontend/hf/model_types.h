// The model types of Hugging Face that heddle builds: what their keys mean to the built-in families.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/families/settings.h"
#include "frontend/hf/config_keys.h"

namespace heddle {

// What a config becomes: keys of a family, and limits on the sequence.
struct Translation {
  std::string family;
  std::vector<KeyValue> values = {};
  int64_t longest = 0;  // 'max_position_embeddings' of rotary positions, 0 where there is no limit
  int64_t window = 0;   // tokens that a token sees, 0 where it sees all
  bool attention_apart = false;  // dropping out attention probabilities takes attention=unfused

  Translation& Set(std::string key, int64_t value);
  Translation& Set(std::string key, bool value);
  Translation& Set(std::string key, double value);
  Translation& Set(std::string key, const char* value);
  // The last value set.
  double Number(std::string_view key, double fallback) const;
};

// One model type. Keys that `translate` reads are used; `fixed` and `irrelevant` stand beside those of every type.
struct ModelType {
  std::string name;
  std::vector<std::string> architectures;  // classes that compute what is built
  Translation (*translate)(const ConfigFile&);
  std::vector<FixedKey> fixed;
  std::vector<IrrelevantKey> irrelevant;
};

const std::vector<ModelType>& ModelTypes();

}  // namespace heddle
