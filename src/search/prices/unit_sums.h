// Numbers per unit of a model, summed over any range of units.
#pragma once

#include <algorithm>
#include <vector>

namespace heddle {

class UnitSums {
 public:
  UnitSums() = default;
  explicit UnitSums(const std::vector<double>& units) {
    for (double unit : units) sums_.push_back(sums_.back() + unit);
  }
  double Of(int first, int last) const {
    return sums_[static_cast<size_t>(last)] - sums_[static_cast<size_t>(first)];
  }
  double at(int unit) const { return Of(unit, unit + 1); }
  double total() const { return sums_.back(); }
  int units() const { return static_cast<int>(sums_.size()) - 1; }

 private:
  std::vector<double> sums_{0};  // prefix sums
};

// The least sum of a given number of units of a model, whichever units they are. The first and the
// last unit are separate, because it is known which device has them.
class FewestUnits {
 public:
  FewestUnits() = default;
  explicit FewestUnits(const UnitSums& units) : units_(units.units()) {
    if (units_ == 0) return;
    first_ = units.at(0);
    last_ = units.at(units_ - 1);
    std::vector<double> inner;
    for (int u = 1; u + 1 < units_; ++u) inner.push_back(units.at(u));
    std::sort(inner.begin(), inner.end());
    inner_ = UnitSums(inner);
  }
  // For models of at least two units. `count` includes the first and the last unit where these are
  // set.
  double Of(int count, bool first, bool last) const {
    int others = std::clamp(count - (first ? 1 : 0) - (last ? 1 : 0), 0, inner_.units());
    return (first ? first_ : 0) + (last ? last_ : 0) + inner_.Of(0, others);
  }

 private:
  int units_ = 0;
  double first_ = 0, last_ = 0;
  UnitSums inner_;
};

}  // namespace heddle
