// The name a person probably meant, for error messages.
//
//   Nearest("bandwith", {"bandwidth", "latency"})   // {"bandwidth"}
//   DidYouMean("bandwith", names)                   // "did you mean 'bandwidth'?"
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// Letters to insert, remove, replace or swap with their neighbour to turn one into the other.
// O(a.size() * b.size()).
int EditDistance(std::string_view a, std::string_view b);

// Those of `names` that are close to `name` (a third of its letters differ, or one begins with the other),
// closest first, then in their order; at most `limit`. A name longer than 64 bytes is near nothing.
std::vector<std::string> Nearest(std::string_view name, std::span<const std::string_view> names,
                                 std::size_t limit = 3);

// "did you mean 'a' or 'b'?", or where nothing is near "there are a, b, c".
std::string DidYouMean(std::string_view name, std::span<const std::string_view> names);

}  // namespace heddle
