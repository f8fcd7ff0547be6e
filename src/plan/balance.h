// Consecutive blocks in a number of stages of about equal work.
#pragma once

#include <vector>

namespace heddle {

// Cuts work[0..n) into `stages` runs of at least one block each: the heaviest as light as it can be, and of those
// cuts one with the least sum of squares. Returns where stages end, ascending, the last n. Needs 1 <= stages <= n
// and work that is finite and not negative. O(stages n log n) and the cuts within the bound.
std::vector<int> Balance(const std::vector<double>& work, int stages);

}  // namespace heddle
