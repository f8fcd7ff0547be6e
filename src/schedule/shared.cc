#include <algorithm>

#include "schedule/schedules.h"

namespace heddle {

std::vector<Task> OneForwardOneBackward(const std::vector<Task>& forwards,
                                        const std::vector<Task>& backwards, size_t warmup) {
  warmup = std::min(warmup, forwards.size());
  std::vector<Task> order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warmup));
  order.reserve(forwards.size() + backwards.size());
  for (size_t i = 0; i < backwards.size(); ++i) {
    if (warmup + i < forwards.size()) order.push_back(forwards[warmup + i]);
    order.push_back(backwards[i]);
  }
  return order;
}

bool EqualStages(const PipelineShape& shape) {
  bool transfers = false;
  for (int d = 0; d < shape.devices; ++d) transfers = transfers || shape.transfer_after(d) > 0;
  return !transfers && std::all_of(shape.times.begin(), shape.times.end(),
                                   [&](const HalfTimes& t) { return t == shape.times.front(); });
}

std::optional<double> FusedBubble(const PipelineShape& shape) {
  const HalfTimes t = shape.times_of(0);
  if (!EqualStages(shape) || t.forward + t.backward + t.weight == 0) return std::nullopt;
  const double idle = shape.devices - 1;
  return idle / (double(shape.chunks) * shape.microbatches + idle);
}

int PeakInFlightOfStage(const ScheduleDef& def, const PipelineShape& shape, int stage) {
  const int peak = def.peak_in_flight(shape, shape.device_of(stage));
  const int round = shape.stages(), before = stage / shape.devices * shape.devices;
  return peak / round * shape.devices + std::clamp(peak % round - before, 0, shape.devices);
}

namespace {

// Sums of the times of one device, or of consecutive stages.
struct Sums {
  double forward = 0, backward = 0, weight = 0;
};

class BoundOfDevice {
 public:
  BoundOfDevice(const PipelineShape& shape, const ScheduleDef& def) : shape_(shape), def_(def) {
    for (int s = 0; s < shape.stages(); ++s) {
      const Sums& last = before_.back();
      const Sums t = Times(s);
      before_.push_back({last.forward + t.forward, last.backward + t.backward, 0});
      transfers_.push_back(transfers_.back() + shape.transfer_after(s));
    }
  }

  double operator()(int device) const { return std::max(Work(device), Cycles(device)); }

 private:
  double Work(int device) const {
    Sums all, least{1e300, 1e300, 1e300};
    for (int s = device; s < shape_.stages(); s += shape_.devices) {
      const Sums t = Times(s);
      all = {all.forward + t.forward, all.backward + t.backward, all.weight + t.weight};
      least.forward = std::min(least.forward, t.forward);
      least.weight = std::min(least.weight, t.weight);
    }
    const double m = shape_.microbatches, tasks = m * shape_.chunks;
    const double late_forwards =
        std::max(0.0, tasks - def_.peak_in_flight(shape_, device)) * least.forward;
    const double early_weights =
        std::max(0.0, tasks - def_.peak_weight_pending(shape_, device)) * least.weight;
    const int last_stage = shape_.stages() - shape_.devices + device;
    const double first_backward =
        Head(last_stage) + RoundTrip(last_stage) - Times(last_stage).backward;
    return std::max(Head(device) + m * all.forward, first_backward + late_forwards) +
           m * all.backward + std::max(m * all.weight, early_weights + Tail(device));
  }

  double Cycles(int device) const {
    if (shape_.chunks > 1) return 0;
    const Sums t = Times(device);
    const int in_flight = def_.peak_in_flight(shape_, device);
    const int cycles = (shape_.microbatches - 1) / in_flight;
    const int rest = (shape_.microbatches - 1) % in_flight;
    return Head(device) + rest * t.forward + (cycles + 1) * RoundTrip(device) +
           std::max(t.weight, Tail(device));
  }

  // Before the first F of a stage may begin.
  double Head(int stage) const {
    return before_[size_t(stage)].forward + transfers_[size_t(stage)];
  }

  // After the last B of a device, on others.
  double Tail(int device) const {
    if (device == 0) return 0;
    return before_[size_t(device)].backward + transfers_[size_t(device)] + Times(0).weight;
  }

  // From the begin of F of a stage to the end of its B.
  double RoundTrip(int stage) const {
    const Sums &from = before_[size_t(stage)], &all = before_.back();
    return all.forward - from.forward + all.backward - from.backward +
           2 * (transfers_[size_t(shape_.stages()) - 1] - transfers_[size_t(stage)]);
  }

  Sums Times(int stage) const {
    const HalfTimes t = shape_.times_of(stage);
    if (def_.splits_backward) return {t.forward, t.backward, t.weight};
    return {t.forward, t.backward + t.weight, 0};
  }

  const PipelineShape& shape_;
  const ScheduleDef& def_;
  std::vector<Sums> before_{Sums{}};  // of the stages before each
  std::vector<double> transfers_{0};  // from the first stage to each
};

}  // namespace

double InFlightBound(const PipelineShape& shape, const ScheduleDef& def) {
  const BoundOfDevice bound_of(shape, def);
  double bound = 0;
  for (int d = 0; d < shape.devices; ++d) bound = std::max(bound, bound_of(d));
  return bound;
}

}  // namespace heddle
