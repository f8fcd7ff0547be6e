#include "cluster/quantity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace heddle {
namespace {

// A unit is 10^decimal * binary times the base unit.
struct Scale {
  std::string_view unit;
  int decimal = 0;
  double binary = 1;
  bool prints = false;  // whether PrintQuantity uses the unit
};

constexpr double kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi, kPi = kTi * kKi;
constexpr double kBit = 1.0 / 8;

constexpr std::array<Scale, 11> kMemoryScales = {{{"B", 0, 1, true},
                                                  {"KB", 3},
                                                  {"MB", 6},
                                                  {"GB", 9},
                                                  {"TB", 12},
                                                  {"PB", 15},
                                                  {"KiB", 0, kKi, true},
                                                  {"MiB", 0, kMi, true},
                                                  {"GiB", 0, kGi, true},
                                                  {"TiB", 0, kTi, true},
                                                  {"PiB", 0, kPi, true}}};
constexpr std::array<Scale, 16> kBandwidthScales = {{{"B/s", 0, 1, true},
                                                     {"KB/s", 3, 1, true},
                                                     {"MB/s", 6, 1, true},
                                                     {"GB/s", 9, 1, true},
                                                     {"TB/s", 12, 1, true},
                                                     {"PB/s", 15, 1, true},
                                                     {"KiB/s", 0, kKi},
                                                     {"MiB/s", 0, kMi},
                                                     {"GiB/s", 0, kGi},
                                                     {"TiB/s", 0, kTi},
                                                     {"PiB/s", 0, kPi},
                                                     {"b/s", 0, kBit},
                                                     {"Kb/s", 3, kBit},
                                                     {"Mb/s", 6, kBit},
                                                     {"Gb/s", 9, kBit},
                                                     {"Tb/s", 12, kBit}}};
constexpr std::array<Scale, 7> kTimeScales = {{{"ns", -9, 1, true},
                                               {"us", -6, 1, true},
                                               {"ms", -3, 1, true},
                                               {"s", 0, 1, true},
                                               {"min", 0, 60},
                                               {"h", 0, 3600},
                                               {"d", 0, 86400}}};
constexpr std::array<Scale, 7> kRateScales = {{{"FLOP/s", 0, 1, true},
                                               {"KFLOP/s", 3, 1, true},
                                               {"MFLOP/s", 6, 1, true},
                                               {"GFLOP/s", 9, 1, true},
                                               {"TFLOP/s", 12, 1, true},
                                               {"PFLOP/s", 15, 1, true},
                                               {"EFLOP/s", 18, 1, true}}};

struct UnitInfo {
  std::span<const Scale> scales;
  std::string_view base;  // the unit of the value itself
  std::string_view example;
};

UnitInfo InfoOf(Unit unit) {
  switch (unit) {
    case Unit::kMemory:
      return {kMemoryScales, "B", "80 GiB"};
    case Unit::kBandwidth:
      return {kBandwidthScales, "B/s", "900 GB/s or 400 Gb/s"};
    case Unit::kTime:
      return {kTimeScales, "s", "5 us"};
    case Unit::kRate:
      break;
  }
  return {kRateScales, "FLOP/s", "312 TFLOP/s"};
}

double ValueOf(const Scale& scale) { return std::pow(10, scale.decimal) * scale.binary; }

// The double nearest to digits * 10^decimal. 66.9 T must be 66.9e12, which differs from 66.9 * 1e12.
double TimesPowerOfTen(std::string_view digits, int decimal) {
  const std::size_t e = digits.find_first_of("eE");
  int exponent = 0;
  if (e != digits.npos) {
    std::string_view sign_and_digits = digits.substr(e + 1);
    if (sign_and_digits.starts_with('+')) sign_and_digits.remove_prefix(1);
    std::from_chars(sign_and_digits.data(), sign_and_digits.data() + sign_and_digits.size(),
                    exponent);
  }
  const std::string text = fmt::format("{}e{}", digits.substr(0, e), exponent + decimal);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const double infinity = std::numeric_limits<double>::infinity();
  return result.ec == std::errc() ? value : infinity;
}

}  // namespace

std::variant<double, QuantityError> ParseQuantity(std::string_view text, Unit unit,
                                                  std::string_view example) {
  UnitInfo info = InfoOf(unit);
  if (!example.empty()) info.example = example;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return QuantityError{"the number is out of range"};
  if (error != std::errc() || !std::isfinite(number)) {
    return QuantityError{fmt::format("write a number and a unit, as in {}", info.example)};
  }
  if (std::signbit(number)) return QuantityError{"must not be negative"};
  const auto length = static_cast<std::size_t>(end - text.data());
  std::string_view name = text.substr(length);
  while (name.starts_with(' ')) name.remove_prefix(1);
  if (name.empty()) return QuantityError{fmt::format("add a unit, as in {}", info.example)};
  std::vector<std::string_view> known;
  for (const Scale& scale : info.scales) {
    if (scale.unit != name) {
      known.push_back(scale.unit);
      continue;
    }
    double value = 0;
    if (number != 0) value = TimesPowerOfTen(text.substr(0, length), scale.decimal) * scale.binary;
    if (unit == Unit::kMemory) value = std::round(value);
    if (!std::isfinite(value)) return QuantityError{"the number is out of range"};
    return value;
  }
  return QuantityError{fmt::format("unknown unit; units are {}", fmt::join(known, ", "))};
}

std::string PrintQuantity(double value, Unit unit) {
  const UnitInfo info = InfoOf(unit);
  std::string shortest = fmt::format("{} {}", value, info.base);
  for (const Scale& scale : info.scales) {
    const double scaled = value / ValueOf(scale);
    if (!scale.prints || scaled < 1) continue;
    for (int digits : {15, 16, 17}) {
      std::string text = fmt::format("{:.{}g} {}", scaled, digits, scale.unit);
      const auto back = ParseQuantity(text, unit);
      if (!std::holds_alternative<double>(back) || std::get<double>(back) != value) continue;
      if (text.size() < shortest.size()) shortest = std::move(text);
      break;
    }
  }
  return shortest;
}

std::string FormatQuantity(double value, Unit unit) {
  const UnitInfo info = InfoOf(unit);
  std::string best = fmt::format("{:.3g} {}", value, info.base);
  double best_scale = 0;
  for (const Scale& scale : info.scales) {
    if (unit == Unit::kRate && scale.decimal > 12) continue;  // rates are compared in TFLOP/s
    const double size = ValueOf(scale);
    // A value that would be printed as 1 of a unit uses that unit, even if it is slightly below 1 because of rounding.
    if (!scale.prints || value < size * 0.9995 || size < best_scale) continue;
    best_scale = size;
    const double scaled = value / size;
    best = scaled >= 999.5 ? fmt::format("{:.0f} {}", scaled, scale.unit)
                           : fmt::format("{:.3g} {}", scaled, scale.unit);
  }
  return best;
}

}  // namespace heddle
