// Reading the fields of a JSON file, each with its checks. Every error is an InputError "file: path.field: value: remedy".
//
//   JsonFields fields(json, "plan.json", "stages[2]", kKeys);
//   int64_t size = fields.Int("size", 1, 64);      // plan.json: stages[2].size: "four": expected a whole number
//   for (const JsonValue& at : fields.ValueOf("rates").List(4096)) rates.push_back(at.Number());
//
// YAML files have a reader of their own (cluster/yaml_fields.h): their values are texts with lines and units, not types.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace heddle {

// A value and where it stands. File and value must outlive it.
class JsonValue {
 public:
  JsonValue(const Json& json, std::string_view file, std::string path)
      : json_(&json), file_(file), path_(std::move(path)) {}

  const Json& json() const { return *json_; }
  std::string_view file() const { return file_; }
  const std::string& path() const { return path_; }

  int64_t Int(int64_t low, int64_t high) const;
  // Nothing where it is no whole number of that range.
  std::optional<int64_t> AsInt(int64_t low, int64_t high) const;
  double Number() const;
  // Above 0 and finite; nothing where it is not, or no number.
  std::optional<double> AsPositive() const;
  bool Bool() const;
  std::string Text() const;  // not empty
  std::vector<JsonValue> List(size_t most) const;
  // Of an object whose keys are names of the file's own.
  std::vector<std::pair<std::string, JsonValue>> Entries(size_t most) const;

  [[noreturn]] void Refuse(std::string_view remedy) const;

 private:
  const Json* json_;
  std::string_view file_;
  std::string path_;
};

class JsonFields {
 public:
  // Throws unless `value` is an object with no keys but `known`; where that is empty, with any. The arguments must
  // outlive this.
  JsonFields(const Json& value, std::string_view file, std::string path,
             std::span<const std::string_view> known);
  JsonFields(const JsonValue& value, std::span<const std::string_view> known)
      : JsonFields(value.json(), value.file(), value.path(), known) {}

  bool Has(std::string_view key) const { return json_.contains(key); }
  const Json& At(std::string_view key) const;  // throws where it is missing
  JsonValue ValueOf(std::string_view key) const { return {At(key), file_, PathOf(key)}; }
  const Json& json() const { return json_; }
  std::string PathOf(std::string_view key) const;
  std::string_view file() const { return file_; }

  int64_t Int(std::string_view key, int64_t low, int64_t high) const {
    return ValueOf(key).Int(low, high);
  }
  double Number(std::string_view key) const { return ValueOf(key).Number(); }
  bool Bool(std::string_view key) const { return ValueOf(key).Bool(); }
  std::string Text(std::string_view key) const { return ValueOf(key).Text(); }  // not empty
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

[[noreturn]] void RefuseJson(std::string_view file, std::string_view path, const Json& value,
                             std::string_view remedy);

// Objects and lists that fit in a line of 100 columns, and hold no others, stand in one.
std::string PrettyJson(const Json& json);

}  // namespace heddle
