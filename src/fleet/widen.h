// Shards while there are many jobs, several devices per job when there are few.
//
// Shards of jobs keep all devices at work while there are more jobs than devices (simulate.h): a job is on one device at a
// time. When most have ended, or where one is much longer than the others, devices stand idle. From some moment on, jobs
// that are left then leave their shards and go on with plans for several devices (spase.h). All moments at which a job
// ends are tried, and the beginning; the best is taken, which may be never.
#pragma once

#include <vector>

#include "fleet/simulate.h"
#include "fleet/spase.h"

namespace heddle {

struct WideFleet {
  double makespan = 0;    // at most that of shards alone
  double from = 0;        // when jobs leave their shards; the makespan: never
  FleetResult shards;     // until then
  SpaseSchedule several;  // after that; times from `from` on, jobs as in the list
  double bound = 0;       // no schedule with these curves and shards is shorter
};

// `curves`: per job what it takes from beginning to end on 2, 4, ... devices; points of one device are passed over: a job
// that has one runs there as shards, its copies waited for as SimulateFleet says. `switch_seconds`: to leave shards, and each later switch.
WideFleet WidenFleet(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                     const PolicyDef& policy, const std::vector<JobCurve>& curves,
                     double switch_seconds, const ResolveOptions& options = {});

// Both parts as one: devices that a job has together are all at work, but for the time of switches.
FleetResult Combined(const WideFleet& wide);

}  // namespace heddle
