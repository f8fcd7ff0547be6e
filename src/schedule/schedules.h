// Inside schedule/: the schedules there are, one file each, and what they share.
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace heddle {

ScheduleDef GpipeSchedule();
ScheduleDef OneFOneBSchedule();
ScheduleDef InterleavedSchedule();
ScheduleDef ZbH1Schedule();
ScheduleDef ZbSchedule();

// A list of `forwards` and of `backwards` in 1f1b's order: `warmup` forwards, then one of each in turn, then the
// remaining backwards.
std::vector<Task> OneForwardOneBackward(const std::vector<Task>& forwards,
                                        const std::vector<Task>& backwards, size_t warmup);

// The same times for every stage, and free transfers: where closed forms hold.
bool EqualStages(const PipelineShape& shape);

// (p-1)/(v*m+p-1) for p devices, v chunks, m micro-batches, whatever F and BW take; with EqualStages.
std::optional<double> FusedBubble(const PipelineShape& shape);

// A lower bound of the step time of any timetable whose peaks are at most those of `def`. Cost O(stages). The
// greater of two, over all devices d with k in flight and q weights pending:
//
//   Work: max(F of the stages before d + all F of d,
//             first chain of F and B from stage 0 down to d + F of d beyond the first k)
//         + all B of d
//         + max(all W of d, W of d beyond the last q + B of the stages before d + W of stage 0)
//
//   Cycles: the (i+k)-th F of d begins after the i-th B has ended, so m micro-batches take (m-1)/k + 1 round trips
//           from d to the end of the pipeline and back, besides the way to d and from it. (One chunk only.)
//
// Where the backward is not split, BW stands in place of B and there is no W.
double InFlightBound(const PipelineShape& shape, const ScheduleDef& def);

}  // namespace heddle
