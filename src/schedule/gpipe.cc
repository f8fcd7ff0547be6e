// gpipe: all forwards, then all backwards.
//
// Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism", NeurIPS 2019.
// The paper draws the backwards last micro-batch first; here they go first to last, which takes as long and sums
// gradients in the order of every other schedule.
//
//   d0  F0  F1  F2  .   .   .   BW0---- BW1---- BW2----
//   d1  .   F0  F1  F2  BW0---- BW1---- BW2----            (p = 2, m = 3, BW = 2 F)
//
// Bubble: (p-1)/(m+p-1) of the step, for any F and BW. Memory: all m micro-batches are in flight on every device,
// so memory bounds m, which the bubble wants large: 1f1b has the same bubble in less. What gpipe has over 1f1b is
// that transfers cost only the first and the last hops, as nothing waits for a round trip.
// Step time, exactly, for any times: two flow shops of m equal jobs,
// sum F + (m-1) max F + sum BW + (m-1) max BW + 2 (p-1) transfer.
#include <algorithm>

#include "schedule/schedules.h"

namespace heddle {
namespace {

Timetable MakeGpipe(const PipelineShape& shape) {
  Timetable timetable(size_t(shape.devices));
  for (int d = 0; d < shape.devices; ++d) {
    std::vector<Task>& tasks = timetable[size_t(d)];
    for (int m = 0; m < shape.microbatches; ++m) tasks.push_back({Half::kF, d, m});
    for (int m = 0; m < shape.microbatches; ++m) tasks.push_back({Half::kBW, d, m});
  }
  return timetable;
}

double StepTime(const PipelineShape& shape) {
  double forward = 0, backward = 0, longest_forward = 0, longest_backward = 0, transfers = 0;
  for (int s = 0; s + 1 < shape.stages(); ++s) transfers += shape.transfer_after(s);
  for (int s = 0; s < shape.stages(); ++s) {
    const HalfTimes t = shape.times_of(s);
    forward += t.forward;
    backward += t.backward + t.weight;
    longest_forward = std::max(longest_forward, t.forward);
    longest_backward = std::max(longest_backward, t.backward + t.weight);
  }
  return forward + backward + (shape.microbatches - 1) * (longest_forward + longest_backward) +
         2 * transfers;
}

int GpipePeak(const PipelineShape& shape, int) { return shape.microbatches; }

}  // namespace

ScheduleDef GpipeSchedule() {
  return {.name = "gpipe",
          .summary = "all forwards, then all backwards",
          .splits_backward = false,
          .takes_chunks = false,
          .full_rounds = false,
          .make = MakeGpipe,
          .lower_bound = StepTime,
          .bubble = FusedBubble,
          .peak_in_flight = GpipePeak,
          .peak_weight_pending = GpipePeak};
}

}  // namespace heddle
