// 64-bit arithmetic on sizes that come from input, where a wrong answer must not go unnoticed.
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

// These throw an InputError that begins with `what`.
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

// The product of all; 1 for none. A zero anywhere makes it 0, however large the others.
inline std::int64_t CheckedProduct(std::span<const std::int64_t> factors, std::string_view what) {
  for (std::int64_t factor : factors) {
    if (factor == 0) return 0;
  }
  std::int64_t product = 1;
  for (std::int64_t factor : factors) product = CheckedMul(product, factor, what);
  return product;
}

}  // namespace heddle
