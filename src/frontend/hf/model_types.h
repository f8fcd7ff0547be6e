// The model types of Hugging Face that heddle supports, and how their keys translate to those of the built-in families.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/families/settings.h"
#include "frontend/hf/config_keys.h"

namespace heddle {

// The translation of a config: keys of a family, and limits on the sequence.
struct Translation {
  std::string family;
  std::vector<KeyValue> values = {};
  int64_t longest = 0;  // 'max_position_embeddings' of rotary positions, 0 where there is no limit
  int64_t window = 0;   // number of tokens that a token sees; 0 where it sees all
  bool needs_unfused_attention =
      false;  // dropout of attention probabilities requires attention=unfused

  Translation& Set(std::string key, int64_t value);
  Translation& Set(std::string key, bool value);
  Translation& Set(std::string key, double value);
  Translation& Set(std::string key, const char* value);
  // The last value set for the key, as a number.
  double Number(std::string_view key, double fallback) const;
};

// One model type. `translate` reads keys; `fixed` and `irrelevant` are added to those of every type.
struct ModelType {
  std::string name;
  std::vector<std::string> architectures;  // classes that compute what heddle builds
  Translation (*translate)(const ConfigFile&);
  std::vector<FixedKey> fixed;
  std::vector<IrrelevantKey> irrelevant;
};

const std::vector<ModelType>& ModelTypes();

}  // namespace heddle
