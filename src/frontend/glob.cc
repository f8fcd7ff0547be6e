#include "frontend/glob.h"

#include <fnmatch.h>

namespace heddle {

// fnmatch(3) also interprets [ and \, so they are escaped; and it reads names only up to a NUL byte.
bool GlobMatch(const std::string& pattern, const std::string& name) {
  std::string escaped;
  for (char c : pattern) {
    if (c == '[' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return fnmatch(escaped.c_str(), name.c_str(), 0) == 0;
}

}  // namespace heddle
