// Two passes of dynamic programming over prefixes. With S the prefix sums,
//   heaviest[k][i] = min over j of max(heaviest[k-1][j], S[i] - S[j]):  the first rises with j, the second falls,
//   so the best j is where they cross;
//   squares[k][i]  = min over j of squares[k-1][j] + (S[i] - S[j])^2, over cuts no heavier than the best.
#include "plan/balance.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/integers.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double LeastHeaviest(const std::vector<double>& sums, size_t stages) {
  size_t n = sums.size() - 1;
  auto sum = [&](size_t from, size_t to) { return sums[to] - sums[from]; };
  std::vector<double> heaviest(sums.size(), kInfinity);
  heaviest[0] = 0;
  for (size_t k = 1; k <= stages; ++k) {
    std::vector<double> next(sums.size(), kInfinity);
    for (size_t i = k; i <= n; ++i) {
      // The first j from which on the stages before weigh at least as much as the last one.
      size_t low = k - 1, high = i - 1;
      while (low < high) {
        size_t j = (low + high) / 2;
        if (heaviest[j] >= sum(j, i)) {
          high = j;
        } else {
          low = j + 1;
        }
      }
      for (size_t j = std::max(k, low) - 1; j <= low; ++j) {
        next[i] = std::min(next[i], std::max(heaviest[j], sum(j, i)));
      }
    }
    heaviest = std::move(next);
  }
  return heaviest.back();
}

}  // namespace

std::vector<int> Balance(const std::vector<double>& work, int stages) {
  HEDDLE_CHECK_GE(stages, 1);
  HEDDLE_CHECK_LE(stages, work.size());
  size_t count = ToSize(stages);
  std::vector<double> sums = {0};
  for (double w : work) sums.push_back(sums.back() + w);
  double bound = LeastHeaviest(sums, count) * (1 + 1e-9);
  std::vector<double> squares(sums.size(), kInfinity);
  squares[0] = 0;
  constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  std::vector<std::vector<size_t>> from(count + 1, std::vector<size_t>(sums.size(), kNowhere));
  for (size_t k = 1; k <= count; ++k) {
    std::vector<double> next(sums.size(), kInfinity);
    for (size_t i = k; i < sums.size(); ++i) {
      for (size_t j = i; j-- > k - 1;) {
        double weight = sums[i] - sums[j];
        if (weight > bound) break;
        if (squares[j] + weight * weight >= next[i]) continue;
        next[i] = squares[j] + weight * weight;
        from[k][i] = j;
      }
    }
    squares = std::move(next);
  }
  std::vector<int> ends;
  for (size_t k = count, i = work.size(); k > 0; --k) {
    ends.push_back(ToInt(i));
    i = from[k][i];
    HEDDLE_CHECK_NE(i, kNowhere);
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace heddle
