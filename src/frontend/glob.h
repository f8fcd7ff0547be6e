// Names by pattern.
#pragma once

#include <string_view>

namespace heddle {

// Does the name match the pattern, in which * stands for any characters and ? for one?
bool GlobMatch(std::string_view pattern, std::string_view name);

}  // namespace heddle
