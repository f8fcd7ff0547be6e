// Reading gzip files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// The unzipped bytes. Throws InputError when they are no gzip stream, are cut short, or exceed `max_bytes`.
std::string Gunzip(std::string_view bytes, std::string_view file, int64_t max_bytes);

}  // namespace heddle
