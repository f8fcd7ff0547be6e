// Reads untrusted YAML into a tree in which every value has its line.
//
// yaml-cpp only scans and sends events. The tree is built here, so that limits apply while the text is read and nothing
// is expanded. Each of these is refused with its line: more than kMaxYamlBytes, nesting deeper than kMaxYamlDepth, more
// than kMaxYamlValues values, control characters, a key given twice, a key that is not a plain text, aliases, tags, and
// a second document.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

constexpr std::size_t kMaxYamlBytes = std::size_t{16} << 20;
constexpr int kMaxYamlDepth = 64;
constexpr std::size_t kMaxYamlValues = 100'000;

struct YamlValue {
  enum class Kind { kNull, kText, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 1;
  std::string text;               // of kText
  std::vector<std::string> keys;  // of kMap, in the order of the file
  std::vector<int> key_lines;     // of kMap
  std::vector<YamlValue> values;  // of kMap one per key; of kList the elements

  // The value of a key; null where the key is missing.
  const YamlValue* Find(std::string_view key) const;
};

// Throws an InputError that begins with `what`, the name of the file, and the line. `page` is the page that documents
// such files.
YamlValue ParseYaml(std::string_view text, std::string_view what, std::string_view page);

// At most 60 bytes of a text in quotes, cut between characters, for error messages.
std::string Quoted(std::string_view text);

}  // namespace heddle
