// The keys of a Hugging Face `config.json`, each of which has to be accounted for.
//
//   ConfigFile c(json, "llama/config.json");
//   int64_t layers = c.Int("num_hidden_layers");      // read: the model depends on it
//   c.PassOver("use_cache", "generation only");       // has no effect on what training computes
//   c.RefuseUnread("llama");                          // everything else is an error
//
// No key is forgotten: one that was neither read nor passed over is refused by RefuseUnread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"

namespace heddle {

// Typed access to the keys of a config; errors are InputErrors, one line with file, key and value. Asking for
// a key is what marks it as read. Null counts as missing except for `Given`.
class ConfigFile {
 public:
  ConfigFile(Json json, std::string path);

  // A size: a whole number of at least 1. Missing without a fallback is an error, in all of these.
  int64_t Int(std::string_view key, std::optional<int64_t> fallback = {}) const;
  bool Flag(std::string_view key, std::optional<bool> fallback = {}) const;
  // low <= value < high.
  double Real(std::string_view key, double fallback, double low, double high) const;
  std::string Text(std::string_view key, std::optional<std::string> fallback = {}) const;

  // Is the key in the file, null or not? Reads nothing.
  bool Given(std::string_view key) const;
  // The value, null pointer where it is missing or null.
  const Json* Find(std::string_view key) const;

  // Does nothing where the file does not have the key.
  void PassOver(std::string_view key, std::string_view reason) const;
  // Was it read or passed over?
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
  // "'key' is value, why".
  [[noreturn]] void Refuse(std::string_view key, const Json& value, std::string_view why) const;

  const std::string& path() const { return path_; }

 private:
  Json json_;
  std::string path_;
  mutable std::set<std::string, std::less<>> read_;
  mutable std::map<std::string, std::string, std::less<>> passed_over_;
};

// At most 60 characters of it, on one line.
std::string ShortText(const Json& value);

}  // namespace heddle
