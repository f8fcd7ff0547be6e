#include "search/floor.h"

#include <algorithm>
#include <cmath>

#include "schedule/schedule.h"

namespace heddle {
namespace {

// How far below the bound that could be given the one given may be.
constexpr double kExact = 1e-4;

// What one layer takes of a stage's two budgets.
struct Layer {
  double seconds = 0, bytes = 0;
};

// The most layers, some of each kind, within both budgets; layers may be parted.
double MostLayers(const std::array<Layer, 3>& kinds, const std::array<bool, 3>& allowed,
                  double seconds, double bytes) {
  if (seconds < 0 || bytes < 0) return -1;
  double most = 0;
  for (size_t a = 0; a < 3; ++a) {
    if (!allowed[a]) continue;
    double by_time = kinds[a].seconds > 0 ? seconds / kinds[a].seconds : 1e18;
    double by_room = kinds[a].bytes > 0 ? bytes / kinds[a].bytes : 1e18;
    most = std::max(most, std::min(by_time, by_room));
    for (size_t b = a + 1; b < 3; ++b) {
      if (!allowed[b]) continue;
      // Both budgets used up.
      double det = kinds[a].seconds * kinds[b].bytes - kinds[b].seconds * kinds[a].bytes;
      if (det == 0) continue;
      double x = (seconds * kinds[b].bytes - kinds[b].seconds * bytes) / det;
      double y = (kinds[a].seconds * bytes - seconds * kinds[a].bytes) / det;
      if (x >= 0 && y >= 0) most = std::max(most, x + y);
    }
  }
  return most;
}

class Bound {
 public:
  Bound(const Configuration& c, const FloorProblem& problem)
      : c_(c), problem_(problem), schedule_(FindSchedule(c.schedule)) {
    for (size_t r = 0; r < 3; ++r) {
      allowed_[r] = problem.times[r] != nullptr;
      if (!allowed_[r]) continue;
      if (any_ == nullptr || problem.times[r]->seconds.total() < any_->seconds.total()) {
        any_ = problem.times[r];
        room_ = problem.rooms[r];
      }
    }
    microbatches_ = static_cast<double>(c.microbatches);
    stages_ = static_cast<double>(c.pp);
    layers_ = any_->seconds.count;
    fill_ = 1.0 / c.chunks;
  }

  double Run() {
    double even = Even();
    if (layers_ == 0 || c_.pp == 1) {
      if (!HasRoom()) return kForbidden;
      return std::max(even, OneStage());
    }
    double low = 0, high = 2 * even + 1;
    for (int i = 0; i < 8 && !Holds(high); ++i) high *= 4;
    if (!Holds(high)) return kForbidden;
    for (int i = 0; i < 40 && high - low > kExact * high; ++i) {
      double middle = (low + high) / 2;
      (Holds(middle) ? high : low) = middle;
    }
    return std::max(even, low);
  }

 private:
  // All devices busy all the time; and the traffic of parameters.
  double Even() const {
    double cuts = (stages_ * c_.chunks - 1) * any_->seam;
    double busy = microbatches_ * (any_->seconds.total() - cuts) / stages_;
    double held = room_ != nullptr ? room_->parameters.total() / stages_ : 0;
    // A micro-batch passes all stages and comes back; the others' backwards, at least half of their time, follow it at
    // the slowest stage.
    double once = plain().seconds.total() - cuts;
    double path = once;
    if (schedule_->splits_backward) path = plain().without_weights.total();
    if (c_.chunks == 1 && !schedule_->splits_backward)
      path += (microbatches_ - 1) * once / stages_ / 2;
    return std::max({busy + problem_.update * held, problem_.traffic * held, path});
  }

  // What neighbours wait for: a device recomputes while it waits for gradients.
  const LeastTime& plain() const { return problem_.plain != nullptr ? *problem_.plain : *any_; }

  // Without layers to count: of all policies the least of everything.
  bool HasRoom() const {
    double least = kForbidden;
    for (size_t r = 0; r < 3; ++r) {
      if (!allowed_[r]) continue;
      const LeastRoom* room = problem_.rooms[r];
      if (room == nullptr) return true;
      least = std::min(least, room->activations.total() +
                                  problem_.bytes_per_parameter * room->parameters.total());
    }
    return least / stages_ <= problem_.limit;
  }

  // A share of the layers under each policy, so that they fit.
  double OneStage() const {
    if (c_.pp > 1 || layers_ == 0) return 0;
    double low = 0, high = 2 * Even() + 1;
    auto holds = [&](double x) { return Layers(0, x, true) >= layers_ * (1 - 1e-9); };
    for (int i = 0; i < 8 && !holds(high); ++i) high *= 4;
    if (!holds(high)) return kForbidden;
    for (int i = 0; i < 40 && high - low > kExact * high; ++i) {
      double middle = (low + high) / 2;
      (holds(middle) ? high : low) = middle;
    }
    return low;
  }

  // The most layers of a stage's device whose own work may take `seconds` of a step.
  double Layers(int stage, double seconds, bool last) const {
    std::array<Layer, 3> kinds;
    double in_flight = InFlight(stage) / c_.chunks;
    double bytes = problem_.limit, fixed = 0;
    for (size_t r = 0; r < 3; ++r) {
      if (!allowed_[r]) continue;
      kinds[r].seconds = microbatches_ * problem_.times[r]->seconds.mean();
      if (problem_.rooms[r] == nullptr) continue;
      const LeastRoom& room = *problem_.rooms[r];
      kinds[r].seconds += problem_.update * room.parameters.mean();
      kinds[r].bytes = in_flight * room.activations.mean() +
                       problem_.bytes_per_parameter * room.parameters.mean();
    }
    auto ends = [&](const LayerSums& sums) {
      return (stage == 0 ? sums.before : 0) + (last ? sums.after : 0);
    };
    fixed = microbatches_ *
            (ends(any_->seconds) - c_.chunks * any_->seam + 2 * problem_.host * c_.chunks);
    if (room_ != nullptr) {
      fixed += problem_.update * ends(room_->parameters);
      bytes -= in_flight * ends(room_->activations) +
               problem_.bytes_per_parameter * ends(room_->parameters);
    }
    double most = MostLayers(kinds, allowed_, seconds - fixed, bytes);
    // Per micro-batch, without updates and the host.
    double budget = seconds / microbatches_ + c_.chunks * any_->seam;
    for (const MemoryWorth& worth : problem_.worths) {
      const LayerSums& least = worth.least[static_cast<size_t>(stage)];
      double rest = budget + worth.per_byte * problem_.limit - ends(least);
      most = std::min(most, rest < 0 ? -1 : rest / least.mean());
    }
    return most;
  }

  double InFlight(int stage) const { return LeastInFlight(c_, stage); }

  bool Holds(double bound) const {
    double taken = 0, before = 0;  // layers; seconds of a micro-batch in the stages before
    double fastest = plain().seconds.mean();
    for (size_t r = 0; r < 3; ++r) {
      if (allowed_[r]) fastest = std::min(fastest, problem_.times[r]->seconds.mean());
    }
    for (int s = 0; s < static_cast<int>(c_.pp); ++s) {
      double most = Layers(s, bound - fill_ * before, s + 1 == static_cast<int>(c_.pp));
      if (most < 0) return false;
      most = std::floor(most + 1e-9);
      taken += most;
      if (taken >= layers_) return true;
      // Gradients of parameters that come apart fill a device's wait at the end: only the start is sure.
      if (schedule_->splits_backward) {
        before += most * plain().forward.mean() + (s == 0 ? plain().forward.before : 0);
        continue;
      }
      before += most * fastest + (s == 0 ? plain().seconds.before : 0);
      before = std::max(0.0, before - any_->seam);
    }
    return false;
  }

  const Configuration& c_;
  const FloorProblem& problem_;
  const ScheduleDef* schedule_;
  std::array<bool, 3> allowed_ = {};
  const LeastTime* any_ = nullptr;   // of the fastest policy
  const LeastRoom* room_ = nullptr;  // likewise
  double microbatches_ = 1, stages_ = 1, layers_ = 0;
  double fill_ = 1;  // of the time before a device that it waits: with chunks, for one of them
};

}  // namespace

double LeastInFlight(const Configuration& c, int device) {
  const ScheduleDef* schedule = FindSchedule(c.schedule);
  double microbatches = static_cast<double>(c.microbatches);
  if (schedule->splits_backward) {
    return std::min(microbatches, static_cast<double>(c.pp - device));
  }
  PipelineShape shape;
  shape.devices = static_cast<int>(c.pp);
  shape.chunks = c.chunks;
  shape.microbatches = static_cast<int>(c.microbatches);
  return schedule->peak_in_flight(shape, device);
}

double FloorOf(const Configuration& configuration, const FloorProblem& problem) {
  double floor = Bound(configuration, problem).Run();
  return floor == kForbidden ? floor : std::max(0.0, floor - problem.early);
}

}  // namespace heddle
