// The keys of a family: what `family:key=value,...` may say, with defaults, limits and one line of
// help each. Parsing, checking, errors and the listing of `heddle models` derive from these.
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

// No size may be larger, so that the product of two of them fits 63 bits.
inline constexpr int64_t kMaxSize = int64_t{1} << 30;
inline constexpr int64_t kMaxLayers = 4096;

struct Key {
  enum class Kind { kInt, kReal, kFlag, kChoice };

  std::string name;
  Kind kind = Kind::kInt;
  // As a person would write it, or in words where the family derives it from other keys ("4 *
  // hidden").
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
             std::string help);  // an int from 0, which is its default
Key FlagKey(std::string name, bool fallback, std::string help);
Key DerivedFlag(std::string name, std::string fallback, std::string help);
Key ChoiceKey(std::string name, std::string fallback, std::vector<std::string> choices,
              std::string help);

// A name and what it stands for, both as given.
using KeyValue = std::pair<std::string, std::string>;

// Checked values of a family's keys. Ints are within their limits; asking for a key that is not
// there, or for one of another kind, is a bug.
class Settings {
 public:
  // Later values replace earlier ones. Throws InputError naming the key, the value and what is
  // allowed.
  Settings(const std::vector<Key>& keys, const std::vector<KeyValue>& given);

  int64_t Int(std::string_view key) const;
  // `derived` where the key was not given and its default is in words.
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

// "gpt:layers=2,hidden=64" apart. Throws InputError for what is not of this form and for a key
// given twice.
struct Expression {
  std::string name;
  std::vector<KeyValue> values;
};
Expression ParseExpression(std::string_view text);

// Throws InputError "a=7 is not a multiple of b=2" unless it is.
void RequireMultiple(std::string_view a_name, int64_t a, std::string_view b_name, int64_t b);

}  // namespace heddle
