// interleaved: 1f1b over v chunks per device, so that the pipeline fills in steps of a chunk.
//
// Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021.
// Micro-batches go in rounds of p: a round passes chunk 0, then chunk 1, and so on; backwards likewise from the
// last chunk. Device d runs 2(p-1-d) + (v-1)p forwards before its first backward (Megatron's number: twice 1f1b's
// distance to the end, so that a transfer has one task's time to hide in).
//
//   d0  F0.0  F1.0  F0.1  F1.1  .     .     BW0.1------ .     BW1.1------ BW0.0------ BW1.0------
//   d1  .     F0.0  F1.0  F0.1  BW0.1------ F1.1  BW1.1------ BW0.0------ BW1.0------
//                                                (p = 2, v = 2, m = 2, BW = 2 F; F1.0: micro-batch 1, chunk 0)
//
// Bubble: (p-1)/(vm+p-1) of the step for any F and BW: 1f1b's through v. Memory: min(vm, 2(p-1-d)+(v-1)p+1) chunks
// in flight, each 1/v of a device's layers: about 1 + (p-1)/(pv) of 1f1b on device 0. Communication: v times
// 1f1b's. Limits: m must be a multiple of p.
#include <algorithm>

#include "schedule/schedules.h"

namespace heddle {
namespace {

// The k-th of the forwards (or, with the chunks counted from the end, of the backwards) of a device.
Task Nth(const PipelineShape& shape, int device, int k, Half half) {
  const int p = shape.devices;
  const int in_round = k % (p * shape.chunks);
  const int chunk = half == Half::kF ? in_round / p : shape.chunks - 1 - in_round / p;
  return {half, chunk * p + device, k / (p * shape.chunks) * p + in_round % p};
}

int Warmup(const PipelineShape& shape, int device) {
  return 2 * (shape.devices - 1 - device) + (shape.chunks - 1) * shape.devices;
}

Timetable MakeInterleaved(const PipelineShape& shape) {
  Timetable timetable;
  for (int d = 0; d < shape.devices; ++d) {
    std::vector<Task> forwards, backwards;
    for (int k = 0; k < shape.microbatches * shape.chunks; ++k) {
      forwards.push_back(Nth(shape, d, k, Half::kF));
      backwards.push_back(Nth(shape, d, k, Half::kBW));
    }
    timetable.push_back(OneForwardOneBackward(forwards, backwards, size_t(Warmup(shape, d))));
  }
  return timetable;
}

double InterleavedLowerBound(const PipelineShape& shape) {
  return InFlightBound(shape, InterleavedSchedule());
}

int InterleavedPeak(const PipelineShape& shape, int device) {
  return std::min(shape.microbatches * shape.chunks, Warmup(shape, device) + 1);
}

}  // namespace

ScheduleDef InterleavedSchedule() {
  return {.name = "interleaved",
          .summary = "1f1b over several chunks per device; a smaller bubble, more transfers",
          .splits_backward = false,
          .takes_chunks = true,
          .full_rounds = true,
          .make = MakeInterleaved,
          .lower_bound = InterleavedLowerBound,
          .bubble = FusedBubble,
          .peak_in_flight = InterleavedPeak,
          .peak_weight_pending = InterleavedPeak};
}

}  // namespace heddle
