// The fields of one object of a JSON file, each read with its checks. Every error is an InputError
// "file: path.field: value: remedy".
//
//   JsonFields fields(json, "plan.json", "stages[2]", kKeys);
//   int64_t size = fields.Int("size", 1, 64);      // plan.json: stages[2].size: "four": expected a whole number
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace heddle {

class JsonFields {
 public:
  // Throws unless `value` is an object with no keys but `known`; where that is empty, with any. The arguments must
  // outlive this.
  JsonFields(const Json& value, std::string_view file, std::string path,
             std::span<const std::string_view> known);

  bool Has(std::string_view key) const { return json_.contains(key); }
  const Json& At(std::string_view key) const;  // throws where it is missing
  const Json& json() const { return json_; }
  std::string PathOf(std::string_view key) const;
  std::string_view file() const { return file_; }

  int64_t Int(std::string_view key, int64_t low, int64_t high) const;
  double Number(std::string_view key) const;
  bool Bool(std::string_view key) const;
  std::string Text(std::string_view key) const;  // not empty
  std::vector<std::string> Texts(std::string_view key) const;
  size_t Choice(std::string_view key, std::span<const std::string_view> choices) const;
  std::array<int64_t, 2> Range(std::string_view key,
                               int64_t high) const;  // [first, last], both within 0..high
  std::vector<std::array<int64_t, 2>> Ranges(std::string_view key,
                                             int64_t high) const;  // one, or a list of them
  const Json& List(std::string_view key) const;

  [[noreturn]] void Refuse(std::string_view key, std::string_view remedy) const;

 private:
  static std::optional<std::array<int64_t, 2>> AsRange(const Json& list, int64_t high);

  const Json& json_;
  std::string_view file_;
  std::string path_;
};

// As one writes it in an error: at most 60 bytes.
std::string Shortened(const Json& value);
[[noreturn]] void RefuseJson(std::string_view file, std::string_view path, const Json& value,
                             std::string_view remedy);

// Objects and lists that fit in a line of 100 columns, and hold no others, stand in one.
std::string PrettyJson(const Json& json);

}  // namespace heddle
