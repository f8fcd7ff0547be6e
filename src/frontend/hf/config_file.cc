#include "frontend/hf/config_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/families/settings.h"

namespace heddle {

ConfigFile::ConfigFile(Json json, std::string path)
    : json_(std::move(json)), path_(std::move(path)) {
  if (!json_.is_object()) Refuse("expected an object with a model's configuration");
}

int64_t ConfigFile::Int(std::string_view key, std::optional<int64_t> fallback) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    if (!fallback) Refuse(fmt::format("'{}' is missing", key));
    return *fallback;
  }
  if (!value->is_number_integer()) Refuse(key, *value, "not a whole number");
  bool large = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{kMaxSize};
  if (large || value->get<int64_t>() < 1 || value->get<int64_t>() > kMaxSize) {
    Refuse(key, *value, fmt::format("not from 1 to {}", kMaxSize));
  }
  return value->get<int64_t>();
}

bool ConfigFile::Flag(std::string_view key, std::optional<bool> fallback) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    if (!fallback) Refuse(fmt::format("'{}' is missing", key));
    return *fallback;
  }
  if (!value->is_boolean()) Refuse(key, *value, "neither true nor false");
  return value->get<bool>();
}

double ConfigFile::Real(std::string_view key, double fallback, double low, double high) const {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) Refuse(key, *value, "not a number");
  double number = value->get<double>();
  if (!(number >= low && number < high)) {
    Refuse(key, *value, fmt::format("not from {} to below {}", low, high));
  }
  return number;
}

std::string ConfigFile::Text(std::string_view key, std::optional<std::string> fallback) const {
  const Json* value = Find(key);
  if (value == nullptr) {
    if (!fallback) Refuse(fmt::format("'{}' is missing", key));
    return *fallback;
  }
  if (!value->is_string()) Refuse(key, *value, "not a text");
  return value->get<std::string>();
}

bool ConfigFile::Given(std::string_view key) const { return json_.contains(std::string(key)); }

const Json* ConfigFile::Find(std::string_view key) const {
  read_.emplace(key);
  auto found = json_.find(std::string(key));
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigFile::PassOver(std::string_view key, std::string_view reason) const {
  if (Given(key)) passed_over_.emplace(key, reason);
}

bool ConfigFile::IsAccountedFor(std::string_view key) const {
  return read_.contains(key) || passed_over_.contains(key);
}

void ConfigFile::RefuseUnread(std::string_view model_type) const {
  for (const auto& [key, value] : json_.items()) {
    if (IsAccountedFor(key)) continue;
    // The name comes from the file, so it is untrusted, too.
    std::string name = ShortText(Json(key));
    Refuse(
        fmt::format("'{}' is {}: heddle does not know this key of a {} model; export the model to "
                    "ONNX instead, "
                    "or delete the key if it does not change what the model computes",
                    name.substr(1, name.size() - 2), ShortText(value), model_type));
  }
}

void ConfigFile::RequireMultiple(std::string_view a, int64_t a_value, std::string_view b,
                                 int64_t b_value) const {
  if (a_value % b_value == 0) return;
  Refuse(fmt::format("'{}' is {}, not a multiple of '{}', which is {}", a, a_value, b, b_value));
}

void ConfigFile::Refuse(std::string_view message) const { ThrowInput("{}: {}", path_, message); }

void ConfigFile::Refuse(std::string_view key, const Json& value, std::string_view why) const {
  Refuse(fmt::format("'{}' is {}, {}", key, ShortText(value), why));
}

std::string ShortText(const Json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

}  // namespace heddle
