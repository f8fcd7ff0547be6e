#include "frontend/families/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest.h"

namespace heddle {
namespace {

constexpr size_t kMaxExpression = 4096;

template <class T>
std::optional<T> Number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string Allowed(const Key& key) {
  switch (key.kind) {
    case Key::Kind::kInt:
      return fmt::format("a whole number from {} to {}", key.min, key.max);
    case Key::Kind::kReal:
      return fmt::format("a number from {} to below {}", key.low, key.high);
    case Key::Kind::kFlag:
      return "0 or 1";
    case Key::Kind::kChoice:
      return fmt::format("one of {}", fmt::join(key.choices, ", "));
  }
  return "";
}

bool IsAllowed(const Key& key, const std::string& text) {
  switch (key.kind) {
    case Key::Kind::kInt: {
      std::optional<int64_t> value = Number<int64_t>(text);
      return value && *value >= key.min && *value <= key.max;
    }
    case Key::Kind::kReal: {
      std::optional<double> value = Number<double>(text);
      return value && *value >= key.low && *value < key.high;
    }
    case Key::Kind::kFlag:
      return text == "0" || text == "1";
    case Key::Kind::kChoice:
      return std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
  }
  return false;
}

}  // namespace

Key IntKey(std::string name, int64_t fallback, std::string help, int64_t max) {
  Key key{std::move(name), Key::Kind::kInt, fmt::format("{}", fallback), std::move(help)};
  key.max = max;
  return key;
}

Key DerivedKey(std::string name, std::string fallback, std::string help) {
  return {std::move(name), Key::Kind::kInt, std::move(fallback), std::move(help)};
}

Key RealKey(std::string name, std::string fallback, double low, double high, std::string help) {
  Key key{std::move(name), Key::Kind::kReal, std::move(fallback), std::move(help)};
  key.low = low;
  key.high = high;
  return key;
}

Key CountKey(std::string name, int64_t max, std::string help) {
  Key key = IntKey(std::move(name), 0, std::move(help), max);
  key.min = 0;
  return key;
}

Key FlagKey(std::string name, bool fallback, std::string help) {
  return {std::move(name), Key::Kind::kFlag, fallback ? "1" : "0", std::move(help)};
}

Key DerivedFlag(std::string name, std::string fallback, std::string help) {
  return {std::move(name), Key::Kind::kFlag, std::move(fallback), std::move(help)};
}

Key ChoiceKey(std::string name, std::string fallback, std::vector<std::string> choices,
              std::string help) {
  Key key{std::move(name), Key::Kind::kChoice, std::move(fallback), std::move(help)};
  key.choices = std::move(choices);
  return key;
}

Settings::Settings(const std::vector<Key>& keys, const std::vector<KeyValue>& given) : keys_(keys) {
  for (const auto& [name, value] : given) {
    auto key = std::ranges::find(keys_, name, &Key::name);
    if (key == keys_.end()) {
      std::vector<std::string_view> names;
      for (const Key& k : keys_) names.push_back(k.name);
      ThrowInput("unknown key '{}'; {}", name, DidYouMean(name, names));
    }
    if (!IsAllowed(*key, value)) ThrowInput("{}={} is not {}", name, value, Allowed(*key));
    values_[name] = value;
  }
}

const Key& Settings::Find(std::string_view name) const {
  for (const Key& key : keys_) {
    if (key.name == name) return key;
  }
  HEDDLE_CHECK(false, "no key '{}'", name);
}

const std::string& Settings::Text(std::string_view name) const {
  auto given = values_.find(name);
  return given == values_.end() ? Find(name).fallback : given->second;
}

int64_t Settings::Int(std::string_view name) const {
  std::optional<int64_t> value = Number<int64_t>(Text(name));
  HEDDLE_CHECK(value.has_value(), "key '{}' is derived", name);
  return *value;
}

int64_t Settings::Int(std::string_view name, int64_t derived) const {
  return Number<int64_t>(Text(name)).value_or(derived);
}

double Settings::Real(std::string_view name) const {
  std::optional<double> value = Number<double>(Text(name));
  HEDDLE_CHECK(value.has_value(), "default of '{}'", name);
  return *value;
}

double Settings::Real(std::string_view name, double derived) const {
  return Number<double>(Text(name)).value_or(derived);
}

std::string Settings::Choice(std::string_view name) const {
  HEDDLE_CHECK(Find(name).kind == Key::Kind::kChoice, "key '{}' is not a choice", name);
  return Text(name);
}

Expression ParseExpression(std::string_view text) {
  if (text.size() > kMaxExpression)
    ThrowInput("the expression is longer than {} bytes", kMaxExpression);
  size_t colon = text.find(':');
  Expression expression{std::string(text.substr(0, colon)), {}};
  if (colon == std::string_view::npos) return expression;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    std::string_view item = rest.substr(0, rest.find(','));
    size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
      ThrowInput("expected key=value in place of '{}'", item);
    }
    std::string key(item.substr(0, equals));
    for (const KeyValue& earlier : expression.values) {
      if (earlier.first == key) ThrowInput("{} is given twice", key);
    }
    expression.values.emplace_back(std::move(key), item.substr(equals + 1));
    if (item.size() == rest.size()) return expression;
    rest.remove_prefix(item.size() + 1);
  }
}

void RequireMultiple(std::string_view a_name, int64_t a, std::string_view b_name, int64_t b) {
  if (a % b != 0) ThrowInput("{}={} is not a multiple of {}={}", a_name, a, b_name, b);
}

}  // namespace heddle
