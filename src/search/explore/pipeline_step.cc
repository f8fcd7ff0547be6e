#include "search/explore/pipeline_step.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace heddle {
namespace {

class Runner {
 public:
  Runner(const Timetable& timetable, const PipelineShape& shape, const PipelineLinks& links,
         double bytes)
      : timetable_(timetable),
        shape_(shape),
        links_(links),
        bytes_(bytes),
        busy_until_(links.resources(), 0),
        next_(timetable.size(), 0),
        free_(timetable.size(), 0),
        forward_(static_cast<size_t>(shape.stages()) * static_cast<size_t>(shape.microbatches),
                 kNotYet),
        backward_(forward_),
        at_work_(timetable.size(), false) {}

  double Run() {
    for (int d = 0; d < shape_.devices; ++d) Advance(d);
    while (!ended_.empty()) {
      auto [time, device, index] = ended_.top();
      ended_.pop();
      Finish(time, device, timetable_[static_cast<size_t>(device)][static_cast<size_t>(index)]);
    }
    return *std::max_element(free_.begin(), free_.end());
  }

 private:
  static constexpr double kNotYet = -1;

  double& At(std::vector<double>& times, int stage, int microbatch) {
    return times[static_cast<size_t>(stage) * static_cast<size_t>(shape_.microbatches) +
                 static_cast<size_t>(microbatch)];
  }

  // Queues the next task of a device once the arrival time of its input is known.
  void Advance(int device) {
    auto d = static_cast<size_t>(device);
    if (next_[d] == timetable_[d].size() || at_work_[d]) return;
    const Task& task = timetable_[d][next_[d]];
    double ready = 0;
    if (task.half == Half::kF) ready = At(forward_, task.stage, task.microbatch);
    if (task.half == Half::kF && task.stage == 0) ready = 0;
    if (task.half == Half::kB || task.half == Half::kBW) {
      ready = At(backward_, task.stage, task.microbatch);
    }
    if (ready == kNotYet) return;
    double end = std::max(free_[d], ready) + Duration(shape_, task);
    at_work_[d] = true;
    ended_.push({end, device, static_cast<int>(next_[d])});
  }

  // `forward_` and `backward_` have the arrival times of the inputs of the stages' halves.
  void Finish(double time, int device, const Task& task) {
    auto d = static_cast<size_t>(device);
    free_[d] = time;
    ++next_[d];
    at_work_[d] = false;
    bool last = task.stage + 1 == shape_.stages();
    if (task.half == Half::kF && last) {
      At(backward_, task.stage, task.microbatch) = time;
    } else if (task.half == Half::kF) {
      At(forward_, task.stage + 1, task.microbatch) = Send(time, device, true);
      Advance(shape_.device_of(task.stage + 1));
    } else if (task.half != Half::kW && task.stage > 0) {
      At(backward_, task.stage - 1, task.microbatch) =
          Send(time, shape_.device_of(task.stage - 1), false);
      Advance(shape_.device_of(task.stage - 1));
    }
    Advance(device);
  }

  // The arrival time of a message between a device of the pipeline and the next, in forward or
  // backward direction.
  double Send(double time, int device, bool forward) {
    if (shape_.devices == 1) return time;
    const std::vector<PipelineLinks::Use>& uses = links_.Uses(device, forward);
    double begin = time;
    for (const PipelineLinks::Use& use : uses) {
      begin = std::max(begin, busy_until_[static_cast<size_t>(use.resource)]);
    }
    for (const PipelineLinks::Use& use : uses) {
      busy_until_[static_cast<size_t>(use.resource)] = begin + bytes_ * use.per_byte;
    }
    return begin + links_.Transfer(device, bytes_);
  }

  const Timetable& timetable_;
  const PipelineShape& shape_;
  const PipelineLinks& links_;
  const double bytes_;
  std::vector<double> busy_until_;
  std::vector<size_t> next_;
  std::vector<double> free_;
  std::vector<double> forward_, backward_;
  std::vector<bool> at_work_;
  using Ended = std::tuple<double, int, int>;  // time, device, index of its task
  std::priority_queue<Ended, std::vector<Ended>, std::greater<>> ended_;
};

double RunOnce(const ScheduleDef& schedule, const PipelineShape& shape, const PipelineLinks& links,
               double bytes) {
  // Plans order their timetables without regard to messages.
  PipelineShape alone = shape;
  alone.transfer = 0;
  alone.transfers.clear();
  return Runner(schedule.make(alone), shape, links, bytes).Run();
}

int FewMicrobatches(const PipelineShape& shape) {
  constexpr int kRounds = 3, kFewest = 12;
  int few = std::max(kFewest, kRounds * shape.devices);
  return (few + shape.devices - 1) / shape.devices * shape.devices;  // full rounds
}

// Executes `run` for a few rounds of micro-batches and extends the result at the pace of the last
// round.
template <typename Run>
double AtThePaceOfAFew(const ScheduleDef& schedule, PipelineShape shape, const Run& run) {
  int all = shape.microbatches, few = FewMicrobatches(shape);
  bool whole = all <= few + shape.devices || schedule.name == "gpipe";
  if (whole) return run(shape);
  shape.microbatches = few;
  double first = run(shape);
  shape.microbatches = few + shape.devices;
  double second = run(shape);
  return second + (second - first) / shape.devices * (all - few - shape.devices);
}

int64_t TasksOf(const ScheduleDef& schedule, const PipelineShape& shape) {
  int few = FewMicrobatches(shape) + shape.devices;
  int rounds = schedule.name == "gpipe" ? shape.microbatches : std::min(shape.microbatches, few);
  return 2 * int64_t{shape.stages()} * rounds;
}

// Lower bounds of schedules are exact where stages are alike; otherwise they may be far too low.
// With a split backward a timetable is found by trying many, which would take too long here.
bool IsBoundExact(const ScheduleDef& schedule, const PipelineShape& shape) {
  constexpr double kAlike = 1.002;
  if (schedule.splits_backward) return true;
  auto [least, most] = std::minmax_element(
      shape.times.begin(), shape.times.end(), [](const HalfTimes& a, const HalfTimes& b) {
        return a.forward + a.backward + a.weight < b.forward + b.backward + b.weight;
      });
  auto sum = [](const HalfTimes& at) { return at.forward + at.backward + at.weight; };
  return sum(*most) <= kAlike * sum(*least);
}

}  // namespace

PipelineTime PipelineSeconds(const ScheduleDef& schedule, const PipelineShape& shape,
                             const PipelineLinks& links, double bytes, double limit) {
  constexpr double kConsiderable = 0.1;   // share of the step
  constexpr int64_t kMostTasks = 20'000;  // some milliseconds
  double floor = schedule.lower_bound(shape);
  double occupied = shape.microbatches * links.Occupied(shape.chunks, bytes);
  bool by_links = occupied >= kConsiderable * floor;
  PipelineTime time{std::max(floor, by_links ? occupied : 0), by_links};
  bool run = (by_links && links.has_uses()) || (!by_links && !IsBoundExact(schedule, shape));
  if (!run || TasksOf(schedule, shape) > kMostTasks) return time;
  if (time.seconds >= limit) {
    time.coarse = true;
    return time;
  }
  double seconds = AtThePaceOfAFew(schedule, shape, [&](const PipelineShape& few) {
    return by_links ? RunOnce(schedule, few, links, bytes)
                    : Execute(schedule.make(few), few).makespan;
  });
  time.seconds = std::max(time.seconds, seconds);
  return time;
}

}  // namespace heddle
