#include "base/text.h"

namespace heddle {

std::string_view CutText(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  // Bytes of the form 10xxxxxx continue the character that began before them.
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

std::string ShortenText(std::string_view text, std::size_t limit) {
  std::string_view cut = CutText(text, limit);
  return std::string(cut) + (cut.size() < text.size() ? "..." : "");
}

}  // namespace heddle
