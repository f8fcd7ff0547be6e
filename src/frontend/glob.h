// Matching of names with patterns.
#pragma once

#include <string>

namespace heddle {

// Whether the name matches the pattern, in which * matches any characters, ? one byte, and every other character,
// including brackets and backslashes, itself.
bool GlobMatch(const std::string& pattern, const std::string& name);

}  // namespace heddle
