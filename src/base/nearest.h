// Names that a person may have meant.
//
//   ThrowInput("unknown key '{}'{}", key, DidYouMean(key, keys));
//   // unknown key 'layer'; did you mean layers?
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The fewest insertions, deletions, replacements and swaps of neighbours that turn one text into
// the other. O(a.size() * b.size()).
size_t EditDistance(std::string_view a, std::string_view b);

// Up to `count` of `names` that are near `given` (edits below half its length, or one begins with
// the other), nearest first, ties in the order given. Case does not count.
std::vector<std::string> Nearest(std::string_view given, std::span<const std::string> names,
                                 size_t count = 3);

// "; did you mean a, b or c?", or nothing where no name is near.
std::string DidYouMean(std::string_view given, std::span<const std::string> names);

}  // namespace heddle
