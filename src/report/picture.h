// Pictures of plain characters, line by line.
#pragma once

#include <string>

namespace heddle {

// Adds a line without its trailing spaces.
inline void AddLine(std::string& picture, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  picture += line + "\n";
}

}  // namespace heddle
