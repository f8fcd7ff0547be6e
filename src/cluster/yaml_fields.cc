#include "cluster/yaml_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"

namespace heddle {
namespace {

using Kind = YamlValue::Kind;

// A description of a value for an error message.
std::string Shown(const YamlValue& value) {
  if (value.kind == Kind::kNull) return "empty";
  if (value.kind == Kind::kList) return fmt::format("a list of {}", value.values.size());
  if (value.kind == Kind::kMap) return fmt::format("a map of {}", value.values.size());
  return value.text.empty() ? "''" : Quoted(value.text);
}

}  // namespace

YamlFields::YamlFields(const YamlValue& value, std::string_view file, std::string path,
                       std::span<const std::string_view> known)
    : map_(value), file_(file), path_(std::move(path)) {
  if (value.kind != Kind::kMap) {
    ThrowInput("{}:{}: {}: {}: must be a map of {}", file_, value.line,
               path_.empty() ? "cluster" : path_, Shown(value), fmt::join(known, ", "));
  }
  for (std::size_t i = 0; i < value.keys.size(); ++i) {
    if (std::find(known.begin(), known.end(), value.keys[i]) != known.end()) continue;
    const std::string name = value.keys[i].empty() ? "''" : Quoted(value.keys[i]);
    ThrowInput("{}:{}: {}: unknown key; {}", file_, value.key_lines[i], PathOf(name),
               DidYouMean(value.keys[i], known));
  }
}

int YamlFields::LineOf(std::string_view key) const {
  const YamlValue* value = map_.Find(key);
  return value ? value->line : map_.line;
}

std::string YamlFields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

std::string YamlFields::PathOf(std::string_view key, std::size_t index) const {
  return fmt::format("{}[{}]", PathOf(key), index);
}

void YamlFields::Refuse(std::string_view key, std::string_view value,
                        std::string_view remedy) const {
  ThrowInput("{}:{}: {}: {}: {}", file_, LineOf(key), PathOf(key), value, remedy);
}

void YamlFields::RefuseMissing(std::string_view key, std::string_view remedy) const {
  ThrowInput("{}:{}: {}: missing: {}", file_, map_.line, PathOf(key), remedy);
}

void YamlFields::RefuseAll(std::string_view message) const {
  ThrowInput("{}:{}: {}: {}", file_, map_.line, path_.empty() ? "cluster" : path_, message);
}

const YamlValue& YamlFields::Require(std::string_view key, std::string_view remedy) const {
  const YamlValue* value = map_.Find(key);
  if (value == nullptr) RefuseMissing(key, remedy);
  return *value;
}

std::string YamlFields::Text(std::string_view key) const {
  const YamlValue& value = Require(key, "give one");
  if (value.kind != Kind::kText || value.text.empty()) Refuse(key, Shown(value), "write a text");
  return value.text;
}

std::string YamlFields::Name(std::string_view key, std::string_view otherwise) const {
  if (!Has(key)) return std::string(otherwise);
  std::string name = Text(key);
  const bool printable =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
  if (!printable) Refuse(key, Quoted(name), "use letters, digits and punctuation of ASCII");
  if (name.size() > kMaxClusterName) {
    Refuse(key, Quoted(name), fmt::format("use at most {} characters", kMaxClusterName));
  }
  return name;
}

std::size_t YamlFields::Choice(std::string_view key,
                               std::span<const std::string_view> choices) const {
  if (!Has(key)) return 0;
  const std::string text = Text(key);
  const auto at = std::find(choices.begin(), choices.end(), text);
  if (at == choices.end()) {
    Refuse(key, Quoted(text), fmt::format("not one of {}", fmt::join(choices, ", ")));
  }
  return static_cast<std::size_t>(at - choices.begin());
}

namespace {

// -1 where the value is not a whole number.
std::int64_t WholeNumber(const YamlValue& value) {
  if (value.kind != Kind::kText || value.text.empty()) return -1;
  const char* end = value.text.data() + value.text.size();
  std::int64_t number = 0;
  const auto [at, error] = std::from_chars(value.text.data(), end, number);
  if (error == std::errc::result_out_of_range && at == end && value.text[0] != '-') {
    return kMaxDevices + 1;
  }
  return error == std::errc() && at == end ? std::max(number, std::int64_t{-1}) : -1;
}

std::string CountRemedy() {
  return fmt::format("must be a whole number from 1 to {}", kMaxDevices);
}

}  // namespace

std::int64_t YamlFields::Count(std::string_view key, std::int64_t otherwise) const {
  if (!Has(key)) return otherwise;
  const YamlValue& value = *map_.Find(key);
  const std::int64_t count = WholeNumber(value);
  if (count < 1 || count > kMaxDevices) Refuse(key, Shown(value), CountRemedy());
  return count;
}

std::vector<std::int64_t> YamlFields::Counts(std::string_view key, std::size_t limit) const {
  const YamlValue& list = Require(key, "give a list such as [4, 4, 4]");
  if (list.kind != Kind::kList || list.values.empty() || list.values.size() > limit) {
    Refuse(key, Shown(list),
           fmt::format("write a list of 1 to {} numbers, as in [4, 4, 4]", limit));
  }
  std::vector<std::int64_t> counts;
  for (const YamlValue& value : list.values) {
    counts.push_back(WholeNumber(value));
    if (counts.back() >= 1 && counts.back() <= kMaxDevices) continue;
    ThrowInput("{}:{}: {}: {}: {}", file_, value.line, PathOf(key, counts.size() - 1), Shown(value),
               CountRemedy());
  }
  return counts;
}

double YamlFields::InLimits(std::string_view key, Unit unit, double limit, bool zero) const {
  const YamlValue& value = *map_.Find(key);
  const auto parsed = ParseQuantity(value.kind == Kind::kText ? value.text : "", unit);
  if (const auto* error = std::get_if<QuantityError>(&parsed)) {
    Refuse(key, Shown(value), error->remedy);
  }
  const double number = std::get<double>(parsed);
  if (number == 0 && !zero) Refuse(key, Shown(value), "must be above 0");
  if (number > limit) {
    Refuse(key, Shown(value), fmt::format("must be at most {}", PrintQuantity(limit, unit)));
  }
  return number;
}

double YamlFields::Quantity(std::string_view key, Unit unit, double limit) const {
  Require(key, "give one");
  return InLimits(key, unit, limit, unit == Unit::kTime);
}

double YamlFields::OptionalQuantity(std::string_view key, Unit unit, double limit) const {
  return Has(key) ? InLimits(key, unit, limit, true) : 0;
}

Link YamlFields::ReadLink(std::string_view key) const {
  static constexpr std::array<std::string_view, 3> kKeys = {"name", "bandwidth", "latency"};
  const YamlValue* value = map_.Find(key);
  if (value == nullptr) return {};
  const YamlFields fields(*value, file_, PathOf(key), kKeys);
  return {.name = fields.Name("name", "link"),
          .bandwidth = fields.Quantity("bandwidth", Unit::kBandwidth, kMaxBandwidth),
          .latency = fields.Quantity("latency", Unit::kTime, kMaxLatency)};
}

Uplink YamlFields::ReadUplink(std::string_view key) const {
  static constexpr std::array<std::string_view, 3> kKeys = {"bandwidth", "per_device", "latency"};
  const YamlValue* value = map_.Find(key);
  if (value == nullptr) return {};
  if (value->kind == Kind::kText) {
    return {.bandwidth = Quantity(key, Unit::kBandwidth, kMaxBandwidth)};
  }
  const YamlFields fields(*value, file_, PathOf(key), kKeys);
  if (!fields.Has("bandwidth") && !fields.Has("per_device") && !fields.Has("latency")) {
    fields.RefuseMissing("bandwidth", "give one, as in 200 GB/s");
  }
  const auto bandwidth = [&](std::string_view name) {
    return fields.Has(name) ? fields.Quantity(name, Unit::kBandwidth, kMaxBandwidth) : 0;
  };
  return {.bandwidth = bandwidth("bandwidth"),
          .per_device = bandwidth("per_device"),
          .latency = fields.OptionalQuantity("latency", Unit::kTime, kMaxLatency)};
}

const std::vector<YamlValue>& YamlFields::List(std::string_view key) const {
  const YamlValue& value = Require(key, "give a list");
  if (value.kind != Kind::kList || value.values.empty()) {
    Refuse(key, Shown(value), "write a list of at least one entry, each beginning with '-'");
  }
  return value.values;
}

}  // namespace heddle
