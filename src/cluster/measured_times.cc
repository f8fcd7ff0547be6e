#include "cluster/measured_times.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace heddle {
namespace {

// The place of a value on an ascending axis: between entries `low` and `low + 1`, at the fraction `part` of the way.
struct GridPlace {
  size_t low = 0;
  double part = 0;
};

GridPlace PlaceOn(const std::vector<double>& axis, double value) {
  if (value <= axis.front() || axis.size() == 1) return {0, 0};
  if (value >= axis.back()) return {axis.size() - 2, 1};
  size_t high =
      static_cast<size_t>(std::upper_bound(axis.begin(), axis.end(), value) - axis.begin());
  double from = std::log(axis[high - 1]), to = std::log(axis[high]);
  return {high - 1, (std::log(value) - from) / (to - from)};
}

}  // namespace

double TimeCurve::SecondsAt(double size) const {
  HEDDLE_CHECK(!points.empty(), "a curve without points");
  if (size <= points.front().size) return points.front().seconds;
  if (size >= points.back().size) return points.back().seconds * (size / points.back().size);
  auto high = std::upper_bound(points.begin(), points.end(), size,
                               [](double at, const TimePoint& point) { return at < point.size; });
  auto low = high - 1;
  double part = std::log(size / low->size) / std::log(high->size / low->size);
  return low->seconds * std::pow(high->seconds / low->seconds, part);
}

double RateTable::RateAt(double at_m, double at_n, double at_k) const {
  HEDDLE_CHECK(!rates.empty(), "a table without rates");
  const GridPlace pm = PlaceOn(m, at_m), pn = PlaceOn(n, at_n), pk = PlaceOn(k, at_k);
  double sum = 0;
  for (size_t corner = 0; corner < 8; ++corner) {
    double weight = 1;
    auto index = [&](const GridPlace& place, size_t bit) {
      bool high = (corner >> bit & 1) != 0;
      weight *= high ? place.part : 1 - place.part;
      return place.low + (high && place.part > 0 ? 1 : 0);
    };
    size_t i = index(pm, 2), j = index(pn, 1), l = index(pk, 0);
    if (weight > 0) sum += weight * std::log(rates[(i * n.size() + j) * k.size() + l]);
  }
  return std::exp(sum);
}

}  // namespace heddle
