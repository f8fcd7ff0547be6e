// Cuts texts that are shown to users to a length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heddle {

// The beginning of a text: at most `limit` bytes, cut between UTF-8 characters.
std::string_view CutText(std::string_view text, std::size_t limit);

// The text, or its beginning followed by "..." where it is longer than `limit` bytes.
std::string ShortenText(std::string_view text, std::size_t limit);

}  // namespace heddle
