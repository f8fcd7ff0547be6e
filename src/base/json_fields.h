// Reads the fields of a JSON file, each with its checks. Every error is an InputError "file: path.field: value:
// remedy".
//
//   JsonFields fields(json, "plan.json", "stages[2]", kKeys);
//   int64_t size = fields.Int("size", 1, 64);      // plan.json: stages[2].size: "four": expected a whole number
//   for (const JsonValue& at : fields.ValueOf("rates").List(4096)) rates.push_back(at.Number());
//
// YAML files have a reader of their own (cluster/yaml_fields.h), because their values are texts with lines and units.
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

// A value with its path in the file. The file name and the value must outlive it.
class JsonValue {
 public:
  JsonValue(const Json& json, std::string_view file, std::string path)
      : json_(&json), file_(file), path_(std::move(path)) {}

  const Json& json() const { return *json_; }
  std::string_view file() const { return file_; }
  const std::string& path() const { return path_; }

  int64_t Int(int64_t low, int64_t high) const;
  // Empty where the value is not a whole number in the range.
  std::optional<int64_t> AsInt(int64_t low, int64_t high) const;
  double Number() const;
  // Empty where the value is not a finite number above 0.
  std::optional<double> AsPositive() const;
  bool Bool() const;
  std::string Text() const;  // not empty
  std::vector<JsonValue> List(size_t most) const;
  // The entries of an object whose keys are chosen by the file, such as names of ops.
  std::vector<std::pair<std::string, JsonValue>> Entries(size_t most) const;

  [[noreturn]] void Refuse(std::string_view remedy) const;

 private:
  const Json* json_;
  std::string_view file_;
  std::string path_;
};

class JsonFields {
 public:
  // Throws unless `value` is an object whose keys are all in `known`. Any keys are accepted where `known` is empty. The
  // arguments must outlive this object.
  JsonFields(const Json& value, std::string_view file, std::string path,
             std::span<const std::string_view> known);
  JsonFields(const JsonValue& value, std::span<const std::string_view> known)
      : JsonFields(value.json(), value.file(), value.path(), known) {}

  bool Has(std::string_view key) const { return json_.contains(key); }
  const Json& At(std::string_view key) const;  // throws where the key is missing
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
                               int64_t high) const;  // [first, last], both from 0 to `high`
  std::vector<std::array<int64_t, 2>> Ranges(std::string_view key,
                                             int64_t high) const;  // one range, or a list of ranges
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

// JSON text in which an object or list stands on one line if it fits in 100 columns and holds no other object or list.
std::string PrettyJson(const Json& json);

}  // namespace heddle
