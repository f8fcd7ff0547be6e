// Text that is shown to people, cut to a length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heddle {

// The beginning of a text: at most `limit` bytes, and no part of a UTF-8 character.
std::string_view CutText(std::string_view text, std::size_t limit);

// The text, or where it is longer than `limit` bytes its beginning and "...".
std::string ShortenText(std::string_view text, std::size_t limit);

}  // namespace heddle
