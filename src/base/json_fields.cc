#include "base/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"

namespace heddle {
namespace {

constexpr size_t kColumns = 100;

std::string Compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsFlat(const Json& json) {
  return std::all_of(json.begin(), json.end(),
                     [](const Json& value) { return value.is_primitive(); });
}

// The value on one line, as in {"a": 1, "b": 2}.
std::string OnOneLine(const Json& json) {
  std::vector<std::string> items;
  for (const auto& [key, value] : json.items()) {
    items.push_back(json.is_object() ? Compact(Json(key)) + ": " + Compact(value) : Compact(value));
  }
  const std::string inside = fmt::format("{}", fmt::join(items, ", "));
  return json.is_object() ? "{" + inside + "}" : "[" + inside + "]";
}

void Print(const Json& json, size_t indent, size_t column, std::string& out) {
  if (json.is_primitive()) {
    out += Compact(json);
    return;
  }
  if (json.empty() || IsFlat(json)) {
    std::string line = OnOneLine(json);
    if (json.empty() || column + line.size() < kColumns) {
      out += line;
      return;
    }
  }
  out += json.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    std::string label = json.is_object() ? Compact(Json(key)) + ": " : "";
    out.append(indent + 1, ' ');
    out += label;
    Print(value, indent + 1, indent + 1 + label.size(), out);
  }
  out += "\n";
  out.append(indent, ' ');
  out += json.is_object() ? "}" : "]";
}

}  // namespace

void RefuseJson(std::string_view file, std::string_view path, const Json& value,
                std::string_view remedy) {
  ThrowInput("{}: {}: {}: {}", file, path, ShortenText(Compact(value), 60), remedy);
}

std::string PrettyJson(const Json& json) {
  std::string out;
  Print(json, 0, 0, out);
  return out + "\n";
}

void JsonValue::Refuse(std::string_view remedy) const { RefuseJson(file_, path_, *json_, remedy); }

std::optional<int64_t> JsonValue::AsInt(int64_t low, int64_t high) const {
  if (!json_->is_number_integer()) return std::nullopt;
  bool huge =
      json_->is_number_unsigned() && json_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (huge || json_->get<int64_t>() < low || json_->get<int64_t>() > high) return std::nullopt;
  return json_->get<int64_t>();
}

int64_t JsonValue::Int(int64_t low, int64_t high) const {
  if (!json_->is_number_integer()) Refuse("expected a whole number");
  std::optional<int64_t> value = AsInt(low, high);
  if (!value) Refuse(fmt::format("expected {} to {}", low, high));
  return *value;
}

double JsonValue::Number() const {
  if (!json_->is_number()) Refuse("expected a number");
  return json_->get<double>();
}

std::optional<double> JsonValue::AsPositive() const {
  double value = json_->is_number() ? json_->get<double>() : 0;
  if (!(value > 0) || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool JsonValue::Bool() const {
  if (!json_->is_boolean()) Refuse("expected true or false");
  return json_->get<bool>();
}

std::string JsonValue::Text() const {
  if (!json_->is_string() || json_->get_ref<const std::string&>().empty()) {
    Refuse("expected a text in quotes");
  }
  return json_->get<std::string>();
}

std::vector<JsonValue> JsonValue::List(size_t most) const {
  if (!json_->is_array() || json_->size() > most)
    Refuse(fmt::format("expected a list of at most {}", most));
  std::vector<JsonValue> items;
  for (const Json& item : *json_)
    items.emplace_back(item, file_, fmt::format("{}[{}]", path_, items.size()));
  return items;
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::Entries(size_t most) const {
  if (!json_->is_object() || json_->size() > most)
    Refuse(fmt::format("expected an object of at most {} fields", most));
  std::vector<std::pair<std::string, JsonValue>> entries;
  for (const auto& [key, value] : json_->items())
    entries.emplace_back(key, JsonValue(value, file_, fmt::format("{}.{}", path_, key)));
  return entries;
}

JsonFields::JsonFields(const Json& value, std::string_view file, std::string path,
                       std::span<const std::string_view> known)
    : json_(value), file_(file), path_(std::move(path)) {
  if (!json_.is_object()) {
    RefuseJson(file_, path_.empty() ? "the file" : path_, json_, "expected an object {...}");
  }
  if (known.empty()) return;
  for (const auto& [key, item] : json_.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      ThrowInput("{}: {}: unknown key: {}", file_, PathOf(key), DidYouMean(key, known));
    }
  }
}

std::string JsonFields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Json& JsonFields::At(std::string_view key) const {
  auto found = json_.find(key);
  if (found == json_.end()) ThrowInput("{}: {} is missing", file_, PathOf(key));
  return *found;
}

void JsonFields::Refuse(std::string_view key, std::string_view remedy) const {
  RefuseJson(file_, PathOf(key), At(key), remedy);
}

std::vector<std::string> JsonFields::Texts(std::string_view key) const {
  std::vector<std::string> texts;
  for (const Json& item : List(key)) {
    if (!item.is_string()) Refuse(key, "expected a list of texts in quotes");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

size_t JsonFields::Choice(std::string_view key, std::span<const std::string_view> choices) const {
  std::string text = Text(key);
  auto found = std::find(choices.begin(), choices.end(), text);
  if (found == choices.end()) Refuse(key, DidYouMean(text, choices));
  return static_cast<size_t>(found - choices.begin());
}

std::optional<std::array<int64_t, 2>> JsonFields::AsRange(const Json& list, int64_t high) {
  if (!list.is_array() || list.size() != 2) return {};
  std::array<int64_t, 2> range = {0, 0};
  for (size_t i = 0; i < 2; ++i) {
    if (!list[i].is_number_integer()) return {};
    range[i] = list[i].get<int64_t>();  // values above 2^63 become negative here
    if (range[i] < 0 || range[i] > high) return {};
  }
  if (range[0] > range[1]) return {};
  return range;
}

std::array<int64_t, 2> JsonFields::Range(std::string_view key, int64_t high) const {
  std::optional<std::array<int64_t, 2>> range = AsRange(List(key), high);
  if (!range) Refuse(key, fmt::format("expected [first, last] within 0 to {}", high));
  return *range;
}

std::vector<std::array<int64_t, 2>> JsonFields::Ranges(std::string_view key, int64_t high) const {
  const Json& list = List(key);
  if (list.empty() || !list[0].is_array()) return {Range(key, high)};
  std::vector<std::array<int64_t, 2>> ranges;
  for (const Json& item : list) {
    std::optional<std::array<int64_t, 2>> range = AsRange(item, high);
    if (!range) Refuse(key, fmt::format("expected ranges [first, last] within 0 to {}", high));
    ranges.push_back(*range);
  }
  return ranges;
}

const Json& JsonFields::List(std::string_view key) const {
  if (!At(key).is_array()) Refuse(key, "expected a list [...]");
  return At(key);
}

}  // namespace heddle
