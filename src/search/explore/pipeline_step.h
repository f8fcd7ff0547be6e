// The time of a pipeline. A schedule's lower bound (ScheduleDef::lower_bound) is exact where stages
// are alike and messages are short. Where stages differ, the timetable is executed; where messages
// occupy links considerably, it is executed with every message on the links that it shares with
// others.
//
//   PipelineTime time = PipelineSeconds(*FindSchedule("1f1b"), shape, links, bytes);
#pragma once

#include <limits>

#include "schedule/schedule.h"
#include "search/prices/links.h"

namespace heddle {

struct PipelineTime {
  double seconds = 0;
  bool by_links = false;  // messages occupy links for a considerable share of the step
  bool coarse = false;    // a lower bound that reaches the limit, so the timetable was not executed
};

// How much the errors of estimates with `by_links` differ: a simulated message also waits for
// gradients and for messages of other replicas.
constexpr double kSpreadByLinks = 0.06;

// The time of all micro-batches. A device of a stage sends `bytes` per micro-batch. O(1) beyond the
// schedule's lower bound where that is exact or not below `limit`; otherwise O(tasks log devices)
// for a few rounds of micro-batches, extended at the pace of the last round. A link carries one
// message at a time, in the order in which they become ready.
PipelineTime PipelineSeconds(const ScheduleDef& schedule, const PipelineShape& shape,
                             const PipelineLinks& links, double bytes,
                             double limit = std::numeric_limits<double>::infinity());

}  // namespace heddle
