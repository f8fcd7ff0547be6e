#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

namespace heddle {
namespace {

std::string ThreeDigits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// `value` with three digits in the largest unit in which it is at least 1. Units are a factor of `base` apart.
std::string Scaled(double value, double base, std::span<const std::string_view> units) {
  if (!std::isfinite(value)) return fmt::format("{}{}", value, units[0]);
  if (value < 0) return "-" + Scaled(-value, base, units);
  std::size_t unit = 0;
  // Values that would be printed as `base`.
  while (unit + 1 < units.size() && value >= base - 0.5) {
    value /= base;
    ++unit;
  }
  return ThreeDigits(value) + std::string(units[unit]);
}

}  // namespace

std::string FormatBytes(Bytes bytes) {
  static constexpr std::array<std::string_view, 7> kUnits = {" B",   " KiB", " MiB", " GiB",
                                                             " TiB", " PiB", " EiB"};
  if (bytes.value > -1024 && bytes.value < 1024) return fmt::format("{} B", bytes.value);
  return Scaled(static_cast<double>(bytes.value), 1024, kUnits);
}

std::string FormatCount(double count) {
  static constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "B", "T"};
  if (std::abs(count) < 1000 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  return Scaled(count, 1000, kUnits);
}

std::string FormatFlops(Flops flops) {
  static constexpr std::array<std::string_view, 9> kUnits = {
      " FLOP", " KFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP", " EFLOP", " ZFLOP", " YFLOP"};
  return Scaled(flops.value, 1000, kUnits);
}

std::string FormatSeconds(Seconds seconds) {
  static constexpr std::array<std::string_view, 3> kUnits = {" ns", " us", " ms"};
  const double value = seconds.value;
  if (!std::isfinite(value)) return fmt::format("{} s", value);
  if (value < 0) return "-" + FormatSeconds(-seconds);
  if (value == 0) return "0 s";
  if (value < 0.9995) return Scaled(value * 1e9, 1000, kUnits);
  if (value < 99.95) return ThreeDigits(value) + " s";
  if (value >= 1e15) return fmt::format("{:.3g} s", value);
  const auto whole = static_cast<std::int64_t>(std::llround(value));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const std::int64_t minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  const std::int64_t hours = (whole + 1800) / 3600;
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

}  // namespace heddle
