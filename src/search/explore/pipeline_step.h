// How long a pipeline takes. Lower bounds of schedules (ScheduleDef::lower_bound) are what it takes where stages are alike and
// messages short. Where stages differ the timetable is run; where messages occupy links it is run with every message on the
// links that it shares with others.
//
//   PipelineTime time = PipelineSeconds(*FindSchedule("1f1b"), shape, links, bytes);
#pragma once

#include <limits>

#include "schedule/schedule.h"
#include "search/prices/links.h"

namespace heddle {

struct PipelineTime {
  double seconds = 0;
  bool by_links = false;  // messages occupy links for a share of the step that counts
  bool coarse = false;    // a lower bound that is not below the limit: the timetable was not run
};

// Estimates of pipelines whose time is `by_links` differ by so much in their errors: a simulated message also waits for
// gradients and for messages of other replicas.
constexpr double kSpreadByLinks = 0.06;

// Of all micro-batches. `bytes` is what a device of a stage sends, of a micro-batch. O(1) beyond the schedule's lower bound
// where that is exact or not below `limit`; else O(tasks log devices) for a few rounds of micro-batches, with the pace of the
// last one for the rest. A link carries one message after the other, in the order in which they are ready.
PipelineTime PipelineSeconds(const ScheduleDef& schedule, const PipelineShape& shape,
                             const PipelineLinks& links, double bytes,
                             double limit = std::numeric_limits<double>::infinity());

}  // namespace heddle
