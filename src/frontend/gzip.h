// Reading gzip files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// The decompressed bytes. Throws an InputError where they are not a gzip stream, are cut short, or exceed `max_bytes`.
std::string Gunzip(std::string_view bytes, std::string_view file, int64_t max_bytes);

}  // namespace heddle
