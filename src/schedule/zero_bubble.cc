// zb-h1 and zb: the backward is split, and the gradients of parameters (W), for which no other device waits, fill
// the bubble.
//
// Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", ICLR 2024: the bounds on memory of its hand-made
// schedules H1 and H2, the order of H1, and its heuristic of trying a few greedy variants on the given times and
// keeping the shortest. For any times zb is never longer than zb-h1, nor zb-h1 than 1f1b.
//
//   zb-h1   d0  F0 F1 F2 .  .  B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4
//           d1  .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 F4 B3 W2 B4 W3 W4
//           d2  .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4         (p = 3, m = 5)
//
//   zb      d0  F0 F1 F2 F3 F4 B0 W0 B1 W1 B2 W2 B3 W3 B4 W4
//           d1  .  F0 F1 F2 B0 F3 B1 F4 B2 W0 B3 W1 B4 W2 W3 W4
//           d2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 W0 W1 W2 W3 W4
//
//            idle per device, equal stages, m >= p     F done, B not, on device d    F done, W not
//   1f1b     (p-1)(F+B+W)                              p-d                           p-d
//   zb-h1    (p-1)(F+B-W), for W <= F and W <= B       p-d                           p
//   zb       (p-1)F, for F = B = W                     2(p-d)-1                      2p-1
//
// With F = B = W and m >= 2p-1 a device in zb works without a pause from its first task to its last: what is left is
// that devices begin one after the other, and it is bubble only if they must wait for each other between steps
// (the paper lets them not, and validates the optimizer's step afterwards). With one makespan per step, zb gains over
// zb-h1 where W is shorter than F or B, or stages are unequal.
//
// Limits: one stage per device; the greedy looks no further than tasks that have begun, so it can miss the optimum.
#include <algorithm>
#include <utility>

#include "schedule/greedy.h"
#include "schedule/schedules.h"

namespace heddle {
namespace {

struct Bounds {
  int (*in_flight)(const PipelineShape&, int device);
  int (*weight_pending)(const PipelineShape&, int device);
};

constexpr Bounds kH1 = {
    [](const PipelineShape& s, int d) { return std::min(s.microbatches, s.devices - d); },
    [](const PipelineShape& s, int) { return std::min(s.microbatches, s.devices); }};

constexpr Bounds kH2 = {
    [](const PipelineShape& s, int d) { return std::min(s.microbatches, 2 * (s.devices - d) - 1); },
    [](const PipelineShape& s, int) { return std::min(s.microbatches, 2 * s.devices - 1); }};

// 1f1b with the backward split: device d runs W of a micro-batch after B of the one `delay` later. Within the
// bounds of H1 up to a delay of d, where it is the paper's H1; without delay never longer than 1f1b.
Timetable SplitOneFOneB(const PipelineShape& shape, bool delayed) {
  Timetable split;
  for (const std::vector<Task>& tasks : OneFOneBSchedule().make(shape)) {
    const int d = static_cast<int>(split.size()), delay = delayed ? d : 0;
    std::vector<Task>& to = split.emplace_back();
    for (const auto& [half, stage, m] : tasks) {
      if (half == Half::kF) {
        to.push_back({Half::kF, stage, m});
        continue;
      }
      to.push_back({Half::kB, stage, m});
      if (m >= delay) to.push_back({Half::kW, stage, m - delay});
    }
    for (int m = std::max(0, shape.microbatches - delay); m < shape.microbatches; ++m) {
      to.push_back({Half::kW, d, m});
    }
  }
  return split;
}

// The shortest timetable so far; of two equally long ones that in which the longest span of a device is shorter.
// One that meets the lower bound ends the trying.
class Shortest {
 public:
  Shortest(const PipelineShape& shape, double bound) : shape_(shape), bound_(bound) {}

  void TryH1() {
    if (!Done()) Consider(SplitOneFOneB(shape_, true));
    if (!Done()) Consider(SplitOneFOneB(shape_, false));
    TryGreedy(kH1);
  }

  void TryGreedy(const Bounds& bounds) {
    GreedyOptions options;
    for (int d = 0; d < shape_.devices; ++d) {
      options.in_flight.push_back(bounds.in_flight(shape_, d));
      options.weight_pending.push_back(bounds.weight_pending(shape_, d));
    }
    for (bool forward_yields : {false, true}) {
      for (bool weight_yields : {false, true}) {
        if (Done()) return;
        options.forward_yields = forward_yields;
        options.weight_yields = weight_yields;
        Consider(GreedyTimetable(shape_, options));
      }
    }
  }

  Timetable Take() { return std::move(best_); }

 private:
  bool Done() const { return !best_.empty() && makespan_ <= bound_ * (1 + 1e-9); }

  void Consider(Timetable timetable) {
    const Execution run = Execute(timetable, shape_);
    double span = 0;
    for (size_t d = 0; d < run.end.size(); ++d) {
      span = std::max(span, run.end[d].back() - run.start[d].front());
    }
    const double same = 1e-12 * run.makespan;
    const bool shorter = run.makespan < makespan_ - same;
    const bool as_long = run.makespan <= makespan_ + same;
    if (!best_.empty() && !shorter && !(as_long && span < span_ - same)) return;
    best_ = std::move(timetable);
    makespan_ = run.makespan;
    span_ = span;
  }

  const PipelineShape& shape_;
  const double bound_;
  Timetable best_;
  double makespan_ = 0, span_ = 0;
};

double BoundH1(const PipelineShape& shape) { return InFlightBound(shape, ZbH1Schedule()); }
double BoundZb(const PipelineShape& shape) { return InFlightBound(shape, ZbSchedule()); }

Timetable MakeH1(const PipelineShape& shape) {
  Shortest shortest(shape, BoundH1(shape));
  shortest.TryH1();
  return shortest.Take();
}

Timetable MakeZb(const PipelineShape& shape) {
  Shortest shortest(shape, BoundZb(shape));
  shortest.TryGreedy(kH2);
  shortest.TryH1();
  return shortest.Take();
}

std::optional<double> Share(const PipelineShape& shape, double idle) {
  const HalfTimes t = shape.times_of(0);
  const double busy = shape.microbatches * (t.forward + t.backward + t.weight);
  if (busy == 0) return std::nullopt;
  return idle / (busy + idle);
}

std::optional<double> H1Bubble(const PipelineShape& shape) {
  const HalfTimes t = shape.times_of(0);
  if (!EqualStages(shape) || t.weight > std::min(t.forward, t.backward)) return std::nullopt;
  const double p = shape.devices, m = shape.microbatches;
  return Share(shape, (p - 1) * (t.forward + t.backward) - (std::min(m, p) - 1) * t.weight);
}

std::optional<double> ZbBubble(const PipelineShape& shape) {
  const HalfTimes t = shape.times_of(0);
  if (!EqualStages(shape) || t.forward != t.backward || t.forward != t.weight) return std::nullopt;
  const double p = shape.devices, m = shape.microbatches;
  return Share(shape, ((p - 1) * 2 - (std::min(m, p) - 1)) * t.forward);
}

}  // namespace

ScheduleDef ZbH1Schedule() {
  return {.name = "zb-h1",
          .summary = "backward split in two, in the memory of 1f1b; a third of its bubble",
          .splits_backward = true,
          .takes_chunks = false,
          .full_rounds = false,
          .make = MakeH1,
          .lower_bound = BoundH1,
          .bubble = H1Bubble,
          .peak_in_flight = kH1.in_flight,
          .peak_weight_pending = kH1.weight_pending};
}

ScheduleDef ZbSchedule() {
  return {.name = "zb",
          .summary = "backward split in two, in twice the memory of 1f1b; no bubble inside a step",
          .splits_backward = true,
          .takes_chunks = false,
          .full_rounds = false,
          .make = MakeZb,
          .lower_bound = BoundZb,
          .bubble = ZbBubble,
          .peak_in_flight = kH2.in_flight,
          .peak_weight_pending = kH2.weight_pending};
}

}  // namespace heddle
