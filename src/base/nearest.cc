#include "base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace heddle {

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::vector<std::string> Nearest(std::string_view name, std::span<const std::string_view> names,
                                 std::size_t limit) {
  if (name.empty() || name.size() > 64) return {};
  std::vector<std::pair<int, std::string>> found;
  for (std::string_view candidate : names) {
    int distance = EditDistance(name, candidate);
    if (name.size() >= 3 && candidate.starts_with(name)) distance = 1;
    if (candidate.size() >= 3 && name.starts_with(candidate)) distance = std::min(distance, 2);
    const auto longer = static_cast<int>(std::max(name.size(), candidate.size()));
    if (3 * distance <= longer) found.emplace_back(distance, candidate);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (auto& [distance, text] : found) {
    if (nearest.size() < limit) nearest.push_back(std::move(text));
  }
  return nearest;
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> names) {
  const std::vector<std::string> nearest = Nearest(name, names);
  if (nearest.empty()) return fmt::format("choose one of {}", fmt::join(names, ", "));
  return fmt::format("did you mean '{}'?", fmt::join(nearest, "' or '"));
}

}  // namespace heddle
