// From times to tables.
#include <algorithm>
#include <cmath>

#include "runtime/calibrate/sample.h"

namespace heddle {
namespace {

constexpr double kNear = 1.4;  // sizes that differ by less become one point

// In the order of sizes, neighbours that are near merged to their geometric means.
void Tidy(TimeCurve& curve) {
  std::vector<TimePoint>& points = curve.points;
  std::sort(points.begin(), points.end(), [](const TimePoint& a, const TimePoint& b) {
    return std::pair(a.size, a.seconds) < std::pair(b.size, b.seconds);
  });
  std::vector<TimePoint> merged;
  for (size_t i = 0; i < points.size();) {
    double size = 0, seconds = 0, count = 0;
    for (double first = points[i].size; i < points.size() && points[i].size < first * kNear; ++i) {
      size += std::log(points[i].size);
      seconds += std::log(points[i].seconds);
      ++count;
    }
    merged.push_back({std::exp(size / count), std::exp(seconds / count)});
  }
  points = std::move(merged);
}

void Subtract(TimeCurve& curve, double seconds, double least) {
  for (TimePoint& point : curve.points) point.seconds = std::max(least, point.seconds - seconds);
}

// Leaves of a product's time what is not the call that makes it.
void SubtractCall(RateTable& table, double seconds) {
  size_t cell = 0;
  for (double m : table.m) {
    for (double n : table.n) {
      for (double k : table.k) {
        double flops = 2 * m * n * k;
        double time = flops / table.rates[cell];
        table.rates[cell++] = flops / std::max(time / 4, time - seconds);
      }
    }
  }
}

}  // namespace

LoadTimes Finish(RawTimes raw) {
  LoadTimes load = std::move(raw.load);
  auto backward = [](const RawTimes::Chain& chain) {
    return std::max(0.0, (chain.many - chain.one) / RawTimes::kChain);
  };
  auto either = [&](const RawTimes::Chain& chain) {
    return (chain.forward / RawTimes::kChain + backward(chain)) / 2;
  };
  load.launch = std::max(kLeast, either(raw.kernels));
  load.view = either(raw.views);
  load.backward = std::max(0.0, raw.kernels.one - backward(raw.kernels));
  Tidy(load.copy);
  Tidy(load.update);
  for (auto& [kind, curve] : load.transfers) Tidy(curve);
  for (auto& [dtype, kernels] : load.kernels) {
    SubtractCall(kernels.tables[static_cast<size_t>(TimeTable::kProduct)], load.launch);
    for (auto& [op, times] : kernels.ops) {
      Subtract(times.backward, load.backward, load.launch);
      Tidy(times.forward);
      Tidy(times.backward);
    }
  }
  return load;
}

}  // namespace heddle
