// Finds the name that a user probably meant, for error messages.
//
//   Nearest("bandwith", {"bandwidth", "latency"})   // {"bandwidth"}
//   DidYouMean("bandwith", names)                   // "did you mean 'bandwidth'?"
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The number of letters to insert, remove, replace or swap with a neighbour that turns `a` into `b`. O(a.size() *
// b.size()).
int EditDistance(std::string_view a, std::string_view b);

// The entries of `names` that are similar to `name`: at most a third of the letters differ, or one begins with the
// other. The most similar come first, then the order of `names` decides; at most `limit`. Nothing is similar to a name
// longer than 64 bytes.
std::vector<std::string> Nearest(std::string_view name, std::span<const std::string_view> names,
                                 std::size_t limit = 3);

// "did you mean 'a' or 'b'?", or "choose one of a, b, c" where no name is similar.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> names);

}  // namespace heddle
