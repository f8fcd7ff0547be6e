// The keys of a family, which `family:key=value,...` may set, each with a default, limits and one line of help.
// Parsing, checks, errors and the listing of `heddle models` are derived from these.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace heddle {

// The largest size, chosen so that the product of two sizes fits 63 bits.
inline constexpr int64_t kMaxSize = int64_t{1} << 30;
inline constexpr int64_t kMaxLayers = 4096;

struct Key {
  enum class Kind { kInt, kReal, kFlag, kChoice };

  std::string name;
  Kind kind = Kind::kInt;
  // The default as a user would write it, or a formula where the family derives it from other keys ("4 * hidden").
  std::string fallback;
  std::string help;
  int64_t min = 1, max = kMaxSize;        // of an int
  double low = 0, high = 1;               // of a real: low <= value < high
  std::vector<std::string> choices = {};  // of a choice

  bool operator==(const Key&) const = default;
};

Key IntKey(std::string name, int64_t fallback, std::string help, int64_t max = kMaxSize);
Key DerivedKey(std::string name, std::string fallback, std::string help);  // an int
Key RealKey(std::string name, std::string fallback, double low, double high, std::string help);
Key CountKey(std::string name, int64_t max,
             std::string help);  // an int from 0, with the default 0
Key FlagKey(std::string name, bool fallback, std::string help);
Key DerivedFlag(std::string name, std::string fallback, std::string help);
Key ChoiceKey(std::string name, std::string fallback, std::vector<std::string> choices,
              std::string help);

// A key and its value, both as given.
using KeyValue = std::pair<std::string, std::string>;

// The checked values of a family's keys. Ints are within their limits. Reading a key that does not exist, or one of
// another kind, is a bug.
class Settings {
 public:
  // Later values replace earlier ones. Throws an InputError that names the key, the value and what is allowed.
  Settings(const std::vector<Key>& keys, const std::vector<KeyValue>& given);

  int64_t Int(std::string_view key) const;
  // Returns `derived` where the key was not given and its default is a formula.
  int64_t Int(std::string_view key, int64_t derived) const;
  double Real(std::string_view key) const;
  double Real(std::string_view key, double derived) const;
  bool Flag(std::string_view key) const { return Int(key) != 0; }
  bool Flag(std::string_view key, bool derived) const { return Int(key, int64_t{derived}) != 0; }
  std::string Choice(std::string_view key) const;

 private:
  const Key& Find(std::string_view key) const;
  const std::string& Text(std::string_view key) const;

  std::vector<Key> keys_;
  std::map<std::string, std::string, std::less<>> values_;
};

// Parses "gpt:layers=2,hidden=64". Throws an InputError for text that does not have this form and for a key given
// twice.
struct Expression {
  std::string name;
  std::vector<KeyValue> values;
};
Expression ParseExpression(std::string_view text);

// Throws an InputError "a=7 is not a multiple of b=2" unless a is a multiple of b.
void RequireMultiple(std::string_view a_name, int64_t a, std::string_view b_name, int64_t b);

}  // namespace heddle
