// Quantities with a unit: Bytes (whole numbers), Flops and Seconds. Quantities of the same unit can be added; a
// quantity times a number is a quantity; the ratio of two is a plain number. Bytes that overflow throw an InputError.
//
//   Bytes weights{2 * parameters};   Seconds step = compute + exposed;   double part = a / b;
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <string>

#include "base/checked_math.h"

namespace heddle {

template <class Tag, class Number>
struct Quantity {
  Number value = 0;

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    if constexpr (std::integral<Number>) {
      return {CheckedAdd(a.value, b.value, Tag::kName)};
    } else {
      return {a.value + b.value};
    }
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a + -b; }
  friend constexpr Quantity operator-(Quantity a) { return a * Number{-1}; }
  friend constexpr Quantity operator*(Quantity a, Number factor) {
    if constexpr (std::integral<Number>) {
      return {CheckedMul(a.value, factor, Tag::kName)};
    } else {
      return {a.value * factor};
    }
  }
  friend constexpr Quantity operator*(Number factor, Quantity a) { return a * factor; }
  friend constexpr Quantity operator/(Quantity a,
                                      Number divisor) requires std::floating_point<Number> {
    return {a.value / divisor};
  }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }
};

struct BytesTag {
  static constexpr std::string_view kName = "size in bytes";
};
struct FlopsTag {};
struct SecondsTag {};

using Bytes = Quantity<BytesTag, std::int64_t>;
using Flops = Quantity<FlopsTag, double>;  // work, not a rate
using Seconds = Quantity<SecondsTag, double>;

constexpr Bytes kKiB{std::int64_t{1} << 10};
constexpr Bytes kMiB{std::int64_t{1} << 20};
constexpr Bytes kGiB{std::int64_t{1} << 30};

// Formats for users, with three significant digits.
std::string FormatBytes(Bytes bytes);        // 512 B, 1.50 KiB, 79.6 GiB
std::string FormatCount(double count);       // 950, 45.6M, 1.23B, 1.75T
std::string FormatFlops(Flops flops);        // 312 GFLOP, 1.23 TFLOP, 4.50 EFLOP
std::string FormatSeconds(Seconds seconds);  // 12.3 us, 4.56 ms, 7.89 s, 2 min 05 s, 3 h 20 min

}  // namespace heddle
