// Two passes of dynamic programming over prefixes. With S the prefix sums,
//   heaviest[k][i] = min over j of max(heaviest[k-1][j], S[i] - S[j]):  the first rises with j, the second falls,
//   so the best j is where they cross;
//   squares[k][i]  = min over j of squares[k-1][j] + (S[i] - S[j])^2, over cuts no heavier than the best.
#include "plan/balance.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double LeastHeaviest(const std::vector<double>& sums, int stages) {
  int n = static_cast<int>(sums.size()) - 1;
  auto sum = [&](int from, int to) {
    return sums[static_cast<size_t>(to)] - sums[static_cast<size_t>(from)];
  };
  std::vector<double> heaviest(sums.size(), kInfinity);
  heaviest[0] = 0;
  for (int k = 1; k <= stages; ++k) {
    std::vector<double> next(sums.size(), kInfinity);
    for (int i = k; i <= n; ++i) {
      // The first j from which on the stages before weigh at least as much as the last one.
      int low = k - 1, high = i - 1;
      while (low < high) {
        int j = (low + high) / 2;
        if (heaviest[static_cast<size_t>(j)] >= sum(j, i)) {
          high = j;
        } else {
          low = j + 1;
        }
      }
      for (int j = std::max(k - 1, low - 1); j <= low; ++j) {
        double weight = std::max(heaviest[static_cast<size_t>(j)], sum(j, i));
        next[static_cast<size_t>(i)] = std::min(next[static_cast<size_t>(i)], weight);
      }
    }
    heaviest = std::move(next);
  }
  return heaviest.back();
}

}  // namespace

std::vector<int> Balance(const std::vector<double>& work, int stages) {
  int n = static_cast<int>(work.size());
  HEDDLE_CHECK_GE(stages, 1);
  HEDDLE_CHECK_LE(stages, n);
  std::vector<double> sums = {0};
  for (double w : work) sums.push_back(sums.back() + w);
  double bound = LeastHeaviest(sums, stages) * (1 + 1e-9);
  std::vector<double> squares(sums.size(), kInfinity);
  squares[0] = 0;
  std::vector<std::vector<int>> from(static_cast<size_t>(stages) + 1,
                                     std::vector<int>(sums.size(), -1));
  for (size_t k = 1; k <= static_cast<size_t>(stages); ++k) {
    std::vector<double> next(sums.size(), kInfinity);
    for (size_t i = k; i < sums.size(); ++i) {
      for (size_t j = i; j-- > k - 1;) {
        double weight = sums[i] - sums[j];
        if (weight > bound) break;
        if (squares[j] + weight * weight >= next[i]) continue;
        next[i] = squares[j] + weight * weight;
        from[k][i] = static_cast<int>(j);
      }
    }
    squares = std::move(next);
  }
  std::vector<int> ends;
  for (int k = stages, i = n; k > 0; --k) {
    ends.push_back(i);
    i = from[static_cast<size_t>(k)][static_cast<size_t>(i)];
    HEDDLE_CHECK_GE(i, 0);
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace heddle
