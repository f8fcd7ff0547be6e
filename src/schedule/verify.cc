// What Verify checks: the number of devices; the range and the device of every task; how often each half of each
// (stage, micro-batch) runs; and, once all of that holds, that no device waits for ever.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "schedule/schedule.h"
#include "schedule/walk.h"

namespace heddle {
namespace {

std::string Name(const Task& task) {
  return fmt::format("{} of stage {}, microbatch {}", HalfName(task.half), task.stage,
                     task.microbatch);
}

class Verifier {
 public:
  Verifier(const Timetable& timetable, const PipelineShape& shape)
      : timetable_(timetable), shape_(shape) {}

  std::vector<std::string> Run() {
    if (timetable_.size() != size_t(shape_.devices)) {
      return {fmt::format("there are lists for {} devices, must be {}", timetable_.size(),
                          shape_.devices)};
    }
    CountTasks();
    CheckCounts();
    if (broken_.empty()) CheckOrder();
    return std::move(broken_);
  }

 private:
  using Counts = std::array<int, 4>;  // by Half

  void CountTasks() {
    counts_.resize(size_t(shape_.stages()) * size_t(shape_.microbatches));
    for (size_t d = 0; d < timetable_.size(); ++d) {
      for (size_t i = 0; i < timetable_[d].size(); ++i) {
        const Task& task = timetable_[d][i];
        const bool known = task.stage >= 0 && task.stage < shape_.stages() &&
                           task.microbatch >= 0 && task.microbatch < shape_.microbatches &&
                           size_t(task.half) < Counts{}.size();
        if (!known) {
          broken_.push_back(fmt::format("device {}, task {}: {} does not exist", d, i, Name(task)));
          continue;
        }
        if (size_t(shape_.device_of(task.stage)) != d) {
          broken_.push_back(fmt::format("device {}, task {}: {} belongs to device {}", d, i,
                                        Name(task), shape_.device_of(task.stage)));
        }
        ++counts_[size_t(task.stage) * size_t(shape_.microbatches) + size_t(task.microbatch)]
                 [size_t(task.half)];
      }
    }
  }

  void CheckCounts() {
    size_t index = 0;
    for (int s = 0; s < shape_.stages(); ++s) {
      for (int m = 0; m < shape_.microbatches; ++m) {
        const Counts& count = counts_[index++];
        const bool fused = count[size_t(Half::kBW)] > 0;
        if (fused && count[size_t(Half::kB)] + count[size_t(Half::kW)] > 0) {
          broken_.push_back(fmt::format("stage {}, microbatch {} has BW beside B or W", s, m));
        }
        Expect(count, {Half::kF, s, m});
        if (fused) {
          Expect(count, {Half::kBW, s, m});
        } else {
          Expect(count, {Half::kB, s, m});
          Expect(count, {Half::kW, s, m});
        }
      }
    }
  }

  void Expect(const Counts& counts, const Task& task) {
    const int count = counts[size_t(task.half)];
    if (count == 0) broken_.push_back(Name(task) + " is missing");
    if (count > 1) broken_.push_back(fmt::format("{} runs {} times", Name(task), count));
  }

  void CheckOrder() {
    const Walk walk = WalkTimetable(timetable_, shape_);
    for (size_t d = 0; d < timetable_.size(); ++d) {
      if (!walk.waits_for[d]) continue;
      const size_t i = walk.end[d].size();
      broken_.push_back(fmt::format("device {}, task {}: {} waits for ever for {}", d, i,
                                    Name(timetable_[d][i]), Name(*walk.waits_for[d])));
    }
  }

  const Timetable& timetable_;
  const PipelineShape& shape_;
  std::vector<Counts> counts_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> Verify(const Timetable& timetable, const PipelineShape& shape) {
  return Verifier(timetable, shape).Run();
}

}  // namespace heddle
