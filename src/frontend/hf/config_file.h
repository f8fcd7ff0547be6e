// The keys of a Hugging Face `config.json`, all of which must be accounted for.
//
//   ConfigFile c(json, "llama/config.json");
//   int64_t layers = c.Int("num_hidden_layers");      // read: the model depends on it
//   c.PassOver("use_cache", "generation only");       // has no effect on what training computes
//   c.RefuseUnread("llama");                          // every other key is an error
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"

namespace heddle {

// Typed access to the keys of a config. Errors are InputErrors of one line with file, key and value. Reading a key
// marks it as read. Null counts as missing, except for `Given`.
class ConfigFile {
 public:
  ConfigFile(Json json, std::string path);

  // A size: a whole number of at least 1. In all of these functions a missing key without a fallback is an error.
  int64_t Int(std::string_view key, std::optional<int64_t> fallback = {}) const;
  bool Flag(std::string_view key, std::optional<bool> fallback = {}) const;
  // low <= value < high.
  double Real(std::string_view key, double fallback, double low, double high) const;
  std::string Text(std::string_view key, std::optional<std::string> fallback = {}) const;

  // Whether the file has the key, null or not. Does not mark it as read.
  bool Given(std::string_view key) const;
  // The value; a null pointer where it is missing or null.
  const Json* Find(std::string_view key) const;

  // Marks a key as irrelevant; does nothing where the file does not have the key.
  void PassOver(std::string_view key, std::string_view reason) const;
  // Whether the key was read or passed over.
  bool IsAccountedFor(std::string_view key) const;
  // Keys that were passed over, with their reasons.
  const std::map<std::string, std::string, std::less<>>& passed_over() const {
    return passed_over_;
  }

  // Refuses the first key that was neither read nor passed over.
  void RefuseUnread(std::string_view model_type) const;

  void RequireMultiple(std::string_view a, int64_t a_value, std::string_view b,
                       int64_t b_value) const;
  [[noreturn]] void Refuse(std::string_view message) const;
  // Throws "'key' is value, why".
  [[noreturn]] void Refuse(std::string_view key, const Json& value, std::string_view why) const;

  const std::string& path() const { return path_; }

 private:
  Json json_;
  std::string path_;
  mutable std::set<std::string, std::less<>> read_;
  mutable std::map<std::string, std::string, std::less<>> passed_over_;
};

// The value on one line, shortened to 60 characters.
std::string ShortText(const Json& value);

}  // namespace heddle
