#include "schedule/greedy.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace heddle {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

struct DeviceState {
  HalfTimes times;
  int next_f = 0, next_b = 0, next_w = 0;  // micro-batches
  double free = 0;
  std::vector<double> f_arrival, b_arrival;  // per micro-batch
};

class Greedy {
 public:
  Greedy(const PipelineShape& shape, const GreedyOptions& options)
      : shape_(shape), options_(options), timetable_(size_t(shape.devices)) {
    double longest = 0;
    for (int d = 0; d < shape.devices; ++d) {
      const double f_arrival = d == 0 ? 0 : kUnknown;
      const auto m = size_t(shape.microbatches);
      const HalfTimes t = shape.times_of(d);
      devices_.push_back({.times = t,
                          .f_arrival = std::vector<double>(m, f_arrival),
                          .b_arrival = std::vector<double>(m, kUnknown)});
      longest = std::max({longest, t.forward, t.backward, t.weight});
      timetable_[size_t(d)].reserve(3 * m);
    }
    same_time_ = 1e-9 * longest;
  }

  Timetable Run() {
    for (int d = 0; d < shape_.devices; ++d) events_.push({0, d});
    while (!events_.empty()) {
      const auto [time, d] = events_.top();
      events_.pop();
      if (devices_[size_t(d)].free <= time) Decide(time, d);
    }
    return std::move(timetable_);
  }

 private:
  using Event = std::pair<double, int>;  // a device that may have something to begin

  void Decide(double now, int d) {
    const DeviceState& device = devices_[size_t(d)];
    const bool has_b = device.next_b < device.next_f;
    const bool has_f = device.next_f < shape_.microbatches &&
                       device.next_f - device.next_b < options_.in_flight[size_t(d)] &&
                       device.next_f - device.next_w < options_.weight_pending[size_t(d)];
    const double b_at = has_b ? device.b_arrival[size_t(device.next_b)] : kUnknown;
    const double f_at = has_f ? device.f_arrival[size_t(device.next_f)] : kUnknown;
    const double soon = now + same_time_;
    if (b_at <= soon) {
      Begin(std::max(now, b_at), d, Half::kB);
    } else if (f_at <= soon &&
               !(options_.forward_yields && now + device.times.forward > b_at + same_time_)) {
      Begin(std::max(now, f_at), d, Half::kF);
    } else if (device.next_w < device.next_b &&
               !(options_.weight_yields &&
                 now + device.times.weight > std::min(b_at, f_at) + same_time_)) {
      Begin(now, d, Half::kW);
    }
  }

  void Begin(double now, int d, Half half) {
    DeviceState& device = devices_[size_t(d)];
    int& next = half == Half::kF ? device.next_f : half == Half::kB ? device.next_b : device.next_w;
    const int m = next++;
    const Task task{half, d, m};
    timetable_[size_t(d)].push_back(task);
    device.free = now + Duration(shape_, task);
    events_.push({device.free, d});
    if (half == Half::kF && d + 1 < shape_.devices) {
      Arrives(devices_[size_t(d) + 1].f_arrival[size_t(m)], device.free + shape_.transfer_after(d),
              d + 1);
    } else if (half == Half::kF) {
      device.b_arrival[size_t(m)] = device.free;
    } else if (half == Half::kB && d > 0) {
      Arrives(devices_[size_t(d) - 1].b_arrival[size_t(m)],
              device.free + shape_.transfer_after(d - 1), d - 1);
    }
  }

  // A device that is busy until later looks for work when it is done.
  void Arrives(double& arrival, double time, int d) {
    arrival = time;
    if (time >= devices_[size_t(d)].free) events_.push({time, d});
  }

  const PipelineShape& shape_;
  const GreedyOptions& options_;
  double same_time_ = 0;  // rounding must not reorder
  std::vector<DeviceState> devices_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Timetable timetable_;
};

}  // namespace

Timetable GreedyTimetable(const PipelineShape& shape, const GreedyOptions& options) {
  return Greedy(shape, options).Run();
}

}  // namespace heddle
