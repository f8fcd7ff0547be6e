// JSON that keeps the order of keys, and a parser for untrusted input.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace heddle {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxJsonBytes = std::size_t{16} << 20;
constexpr int kMaxJsonDepth = 64;

// Parses one JSON value. `what` names the text in errors, usually the file. Throws an InputError with line and column
// where the text is not JSON, is larger than `max_bytes`, nests deeper than kMaxJsonDepth, or gives a key of an object
// twice. Does not recurse; O(size).
Json ParseJson(std::string_view text, std::string_view what, std::size_t max_bytes = kMaxJsonBytes);

}  // namespace heddle
