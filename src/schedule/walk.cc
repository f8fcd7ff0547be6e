#include "schedule/walk.h"

#include <algorithm>
#include <utility>

namespace heddle {
namespace {

constexpr double kNotYet = -1;

class Walker {
 public:
  Walker(const Timetable& timetable, const PipelineShape& shape)
      : timetable_(timetable),
        shape_(shape),
        forward_end_(size_t(shape.stages()) * size_t(shape.microbatches), kNotYet),
        backward_end_(forward_end_) {
    walk_.start.resize(timetable.size());
    walk_.end.resize(timetable.size());
    walk_.waits_for.resize(timetable.size());
  }

  // A device runs until it must wait; then its neighbours may have new work.
  Walk Run() {
    const int devices = shape_.devices;
    std::vector<int> to_try;
    for (int d = devices - 1; d >= 0; --d) to_try.push_back(d);
    while (!to_try.empty()) {
      const int d = to_try.back();
      to_try.pop_back();
      if (!RunDevice(size_t(d))) continue;
      to_try.push_back((d + devices - 1) % devices);
      to_try.push_back((d + 1) % devices);
    }
    return std::move(walk_);
  }

 private:
  size_t Index(int stage, int microbatch) const {
    return size_t(stage) * size_t(shape_.microbatches) + size_t(microbatch);
  }

  // When what `task` needs has arrived; otherwise kNotYet, and `lacking` is set.
  double Arrival(const Task& task, Task& lacking) const {
    const auto [half, s, m] = task;
    if (half == Half::kF) {
      if (s == 0) return 0;
      const double hop = shape_.transfer_after(s - 1);
      lacking = {Half::kF, s - 1, m};
      const double end = forward_end_[Index(s - 1, m)];
      return end == kNotYet ? kNotYet : end + hop;
    }
    if (half == Half::kW) {
      lacking = {Half::kB, s, m};
      return backward_end_[Index(s, m)];
    }
    lacking = {Half::kF, s, m};
    const double own = forward_end_[Index(s, m)];
    if (own == kNotYet || s + 1 == shape_.stages()) return own;
    lacking = {Half::kB, s + 1, m};
    const double end = backward_end_[Index(s + 1, m)];
    return end == kNotYet ? kNotYet : std::max(own, end + shape_.transfer_after(s));
  }

  bool RunDevice(size_t d) {
    const std::vector<Task>& tasks = timetable_[d];
    const size_t before = walk_.end[d].size();
    walk_.waits_for[d].reset();
    while (walk_.end[d].size() < tasks.size()) {
      const Task& task = tasks[walk_.end[d].size()];
      Task lacking;
      const double arrival = Arrival(task, lacking);
      if (arrival == kNotYet) {
        walk_.waits_for[d] = lacking;
        break;
      }
      const double start = std::max(arrival, walk_.end[d].empty() ? 0 : walk_.end[d].back());
      const double end = start + Duration(shape_, task);
      walk_.start[d].push_back(start);
      walk_.end[d].push_back(end);
      if (task.half == Half::kW) continue;
      (task.half == Half::kF ? forward_end_ : backward_end_)[Index(task.stage, task.microbatch)] =
          end;
    }
    return walk_.end[d].size() > before;
  }

  const Timetable& timetable_;
  const PipelineShape& shape_;
  std::vector<double> forward_end_, backward_end_;  // of B or BW
  Walk walk_;
};

}  // namespace

Walk WalkTimetable(const Timetable& timetable, const PipelineShape& shape) {
  return Walker(timetable, shape).Run();
}

}  // namespace heddle
