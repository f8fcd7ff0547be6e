#include "sim/memory_over_time.h"

#include <algorithm>

namespace heddle {
namespace {

// Keeps the first sample and, of every part of the step, the sample with most bytes and the last one.
class Thinned {
 public:
  Thinned(double seconds, size_t parts)
      : part_seconds_(seconds / static_cast<double>(std::max<size_t>(parts, 1))) {}

  void Add(const MemorySample& sample) {
    size_t part =
        part_seconds_ > 0 ? static_cast<size_t>(std::max(0.0, sample.time / part_seconds_)) : 0;
    if (open_ && part == part_) {
      if (sample.kinds.total() > most_.kinds.total()) most_ = sample;
      last_ = sample;
      return;
    }
    if (open_) {
      Close();
    } else {
      Keep(sample);
    }
    part_ = part;
    most_ = last_ = sample;
    open_ = true;
  }

  std::vector<MemorySample> Take() {
    if (open_) Close();
    return std::move(samples_);
  }

 private:
  void Close() {
    Keep(most_);
    if (last_.time >= most_.time) Keep(last_);
  }
  void Keep(const MemorySample& sample) {
    if (!samples_.empty() && samples_.back().kinds == sample.kinds) return;
    samples_.push_back(sample);
  }

  double part_seconds_;
  bool open_ = false;
  size_t part_ = 0;
  MemorySample most_, last_;
  std::vector<MemorySample> samples_;
};

}  // namespace

std::vector<MemorySample> MemoryOverTime(const MemoryModel& model, const Prepared& prepared,
                                         const Timeline& timeline, int64_t device, size_t most) {
  size_t c = static_cast<size_t>(prepared.classes.class_of[static_cast<size_t>(device)]);
  const TaskList& list = prepared.lists[static_cast<size_t>(prepared.classes.devices[c].run)];
  MemoryTimeline memory = Replay(model, device, {.timeline = false, .kinds = true});
  Thinned samples(timeline.seconds, most);
  samples.Add({0, memory.held});
  double now = 0;
  for (size_t t = 0; t < list.tasks.size(); ++t) {
    const TaskTimes& when = timeline.times[c][t];
    bool compute = list.tasks[t].compute_queue;
    if (compute) now = std::max(now, when.start);
    samples.Add({now, memory.most_kinds[t]});
    if (compute) now = std::max(now, when.end);
    samples.Add({now, memory.kinds[t]});
  }
  samples.Add({timeline.seconds, memory.left});
  return samples.Take();
}

}  // namespace heddle
