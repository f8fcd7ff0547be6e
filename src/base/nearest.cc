#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace heddle {
namespace {

// Longer texts are nobody's misspelling.
constexpr size_t kLongest = 64;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), above, further;
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    further = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], further[j - 2] + 1);
    }
  }
  return row.back();
}

std::vector<std::string> Nearest(std::string_view given, std::span<const std::string> names,
                                 size_t count) {
  if (given.empty() || given.size() > kLongest) return {};
  std::string lower = Lower(given);
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& name : names) {
    std::string other = Lower(name);
    size_t distance = EditDistance(lower, other);
    bool prefix = other.starts_with(lower) || lower.starts_with(other);
    if (prefix || 2 * distance < std::max<size_t>(lower.size(), 3))
      found.emplace_back(distance, name);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(count, found.size()); ++i) nearest.push_back(found[i].second);
  return nearest;
}

std::string DidYouMean(std::string_view given, std::span<const std::string> names) {
  std::vector<std::string> nearest = Nearest(given, names);
  std::string text;
  for (size_t i = 0; i < nearest.size(); ++i) {
    text += i == 0 ? "; did you mean " : i + 1 == nearest.size() ? " or " : ", ";
    text += nearest[i];
  }
  return text.empty() ? text : text + "?";
}

}  // namespace heddle
