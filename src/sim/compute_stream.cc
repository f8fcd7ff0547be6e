#include "sim/compute_stream.h"

#include <algorithm>

namespace heddle {
namespace {

class StreamTracer {
 public:
  StreamTracer(const Prepared& prepared, const Timeline& timeline, int device_class)
      : in_(prepared), at_(timeline), class_(device_class) {}

  std::vector<Slice> Run() {
    const std::vector<SimTask>& tasks = list(class_).tasks;
    for (int t : InOrder()) {
      TaskRef at{class_, t};
      const SimTask& here = tasks[static_cast<size_t>(t)];
      const TaskTimes& when = times(at);
      bool local = here.kind == TaskKind::kLocal;
      Wait(at, local ? when.start : when.ready);
      // For the last member of a collective.
      if (!local) Add(SliceKind::kIdle, when.start, at.task);
      Add(local ? SliceKind::kWork : SliceKind::kExposed, when.end, at.task, IsMessage(here));
    }
    // The time after the last compute task: weights are gathered, or the device waits for others.
    TaskRef last = at_.last;
    bool mine = last.device_class == class_ && !IsWork(task(last));
    Add(mine ? SliceKind::kExposed : SliceKind::kIdle, at_.seconds, mine ? last.task : -1,
        mine && IsMessage(task(last)));
    return std::move(slices_);
  }

 private:
  const TaskList& list(int c) const {
    return in_.lists[static_cast<size_t>(in_.classes.devices[static_cast<size_t>(c)].run)];
  }
  const SimTask& task(TaskRef at) const {
    return list(at.device_class).tasks[static_cast<size_t>(at.task)];
  }
  const TaskTimes& times(TaskRef at) const {
    return at_.times[static_cast<size_t>(at.device_class)][static_cast<size_t>(at.task)];
  }

  // The tasks of the compute queue in the order in which they ran: tasks that a stack defers run later than their place
  // in the list.
  std::vector<int> InOrder() const {
    const std::vector<SimTask>& tasks = list(class_).tasks;
    std::vector<int> order;
    for (size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].compute_queue) order.push_back(static_cast<int>(t));
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const TaskTimes &x = times({class_, a}), &y = times({class_, b});
      return x.start != y.start ? x.start < y.start : x.end < y.end;
    });
    return order;
  }

  // Waiting for copies counts as waiting for communication.
  static bool IsWork(const SimTask& task) {
    return task.kind == TaskKind::kLocal && task.compute_queue;
  }

  static bool IsMessage(const SimTask& task) { return task.kind == TaskKind::kSend; }

  // Adds a slice that begins where the last one ended.
  void Add(SliceKind kind, double end, int task, bool message = false) {
    if (end <= until_) return;
    slices_.push_back({until_, end, kind, task, message});
    until_ = end;
  }

  // Adds slices for the time until `to`, when `at` may start.
  void Wait(TaskRef at, double to) {
    if (to <= until_) return;
    moved_.clear();
    double until = to;
    for (TaskRef why = times(at).cause; why.task >= 0 && until > until_; why = times(why).cause) {
      const SimTask& reason = task(why);
      if (IsWork(reason)) break;
      if (reason.kind == TaskKind::kRecv) continue;
      const TaskTimes& when = times(why);
      double begin = std::max(until_, when.start), end = std::min(until, when.end);
      if (end > begin) moved_.push_back({begin, end, IsMessage(reason)});
      until = std::min(until, when.start);
    }
    for (auto span = moved_.rbegin(); span != moved_.rend(); ++span) {
      Add(SliceKind::kIdle, span->begin, at.task);
      Add(SliceKind::kExposed, span->end, at.task, span->message);
    }
    Add(SliceKind::kIdle, to, at.task);
  }

  const Prepared& in_;
  const Timeline& at_;
  int class_;
  double until_ = 0;
  std::vector<Slice> slices_;
  struct Moved {
    double begin = 0, end = 0;
    bool message = false;
  };
  std::vector<Moved> moved_;  // the latest first
};

}  // namespace

std::vector<Slice> ComputeStream(const Prepared& prepared, const Timeline& timeline,
                                 int device_class) {
  return StreamTracer(prepared, timeline, device_class).Run();
}

}  // namespace heddle
