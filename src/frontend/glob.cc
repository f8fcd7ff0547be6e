#include "frontend/glob.h"

namespace heddle {

bool GlobMatch(std::string_view pattern, std::string_view name) {
  // Where the last * was, and how far it has been stretched.
  size_t p = 0, n = 0, star = std::string_view::npos, stretched = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      stretched = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++stretched;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace heddle
