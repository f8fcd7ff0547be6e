// Numbers of the units of a model, added up over any range of them.
#pragma once

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
  std::vector<double> sums_{0};  // of the units before each
};

}  // namespace heddle
