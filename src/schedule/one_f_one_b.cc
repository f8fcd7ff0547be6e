// 1f1b: device d runs p-1-d forwards, then one forward and one backward in turn, then the backwards left.
//
// PipeDream-flush (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021), the default of
// Megatron-LM.
//
//   d0  F0  F1  .   .   BW0---- F2  BW1---- .   BW2----
//   d1  .   F0  BW0---- F1  BW1---- F2  BW2----            (p = 2, m = 3, BW = 2 F)
//
// Bubble: gpipe's, (p-1)/(m+p-1) of the step, for any F and BW. Memory: device d has p-d micro-batches in flight,
// whatever m is. Limits: with just p-d in flight transfers do not hide: up to 2(p-1)/p of one is exposed per
// micro-batch.
#include <algorithm>

#include "schedule/schedules.h"

namespace heddle {
namespace {

Timetable MakeOneFOneB(const PipelineShape& shape) {
  Timetable timetable;
  for (int d = 0; d < shape.devices; ++d) {
    std::vector<Task> forwards, backwards;
    for (int m = 0; m < shape.microbatches; ++m) {
      forwards.push_back({Half::kF, d, m});
      backwards.push_back({Half::kBW, d, m});
    }
    timetable.push_back(OneForwardOneBackward(forwards, backwards, size_t(shape.devices - 1 - d)));
  }
  return timetable;
}

double OneFOneBLowerBound(const PipelineShape& shape) {
  return InFlightBound(shape, OneFOneBSchedule());
}

int OneFOneBPeak(const PipelineShape& shape, int device) {
  return std::min(shape.microbatches, shape.devices - device);
}

}  // namespace

ScheduleDef OneFOneBSchedule() {
  return {.name = "1f1b",
          .summary = "one forward, one backward in turn; few micro-batches in flight",
          .splits_backward = false,
          .takes_chunks = false,
          .full_rounds = false,
          .make = MakeOneFOneB,
          .lower_bound = OneFOneBLowerBound,
          .bubble = FusedBubble,
          .peak_in_flight = OneFOneBPeak,
          .peak_weight_pending = OneFOneBPeak};
}

}  // namespace heddle
