// How long a pipeline takes where its messages take long: the timetable is run with every message on the links that it
// shares with others. Lower bounds of schedules (ScheduleDef::lower_bound) only know how long a message is on its way.
//
//   double seconds = PipelineSeconds(*FindSchedule("1f1b"), shape, links, bytes);
#pragma once

#include "schedule/schedule.h"
#include "search/links.h"

namespace heddle {

// Of all micro-batches. `bytes` is what a device of a stage sends, of a micro-batch. O(1) beyond the schedule's lower bound
// where messages hardly occupy links; else O(tasks log devices) for a few rounds of micro-batches, with the pace of the last
// one for the rest. A link carries one message after the other, in the order in which they are ready.
double PipelineSeconds(const ScheduleDef& schedule, const PipelineShape& shape,
                       const PipelineLinks& links, double bytes);

}  // namespace heddle
