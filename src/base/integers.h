// Conversions between integer types. A value that does not fit is a bug and fails a HEDDLE_CHECK.
//
//   devices[ToSize(rank)]
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace heddle {

constexpr std::size_t ToSize(std::int64_t value) {
  HEDDLE_CHECK(value >= 0, "size {}", value);
  return static_cast<std::size_t>(value);
}

template <std::integral Integer>
constexpr int ToInt(Integer value) {
  HEDDLE_CHECK(std::in_range<int>(value), "{} does not fit an int", value);
  return static_cast<int>(value);
}

constexpr std::int64_t ToInt64(std::size_t value) {
  HEDDLE_CHECK(std::in_range<std::int64_t>(value), "{} does not fit an int64", value);
  return static_cast<std::int64_t>(value);
}

}  // namespace heddle
