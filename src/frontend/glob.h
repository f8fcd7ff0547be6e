// Names by pattern.
#pragma once

#include <string>

namespace heddle {

// Does the name match the pattern, in which * stands for any characters, ? for one byte, and everything else,
// brackets and backslashes too, for itself?
bool GlobMatch(const std::string& pattern, const std::string& name);

}  // namespace heddle
