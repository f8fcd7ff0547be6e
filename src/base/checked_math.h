// 64-bit arithmetic with overflow checks, for sizes that come from input.
//
//   const int64_t elements = CheckedMul(rows, columns, "number of elements of w");
//   // InputError: number of elements of w: 4611686018427387904 * 4 overflows 64 bits
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"

namespace heddle {

constexpr std::optional<std::int64_t> TryAdd(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

constexpr std::optional<std::int64_t> TryMul(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// Throws an InputError that begins with `what` where the sum overflows.
inline std::int64_t CheckedAdd(std::int64_t a, std::int64_t b, std::string_view what) {
  const auto result = TryAdd(a, b);
  if (!result) ThrowInput("{}: {} + {} overflows 64 bits", what, a, b);
  return *result;
}

inline std::int64_t CheckedMul(std::int64_t a, std::int64_t b, std::string_view what) {
  const auto result = TryMul(a, b);
  if (!result) ThrowInput("{}: {} * {} overflows 64 bits", what, a, b);
  return *result;
}

// The product of all factors; 1 where there are none. The product is 0 if any factor is 0, however large the others
// are.
inline std::int64_t CheckedProduct(std::span<const std::int64_t> factors, std::string_view what) {
  for (std::int64_t factor : factors) {
    if (factor == 0) return 0;
  }
  std::int64_t product = 1;
  for (std::int64_t factor : factors) product = CheckedMul(product, factor, what);
  return product;
}

}  // namespace heddle
