// Combines shards, while there are many jobs, with several devices per job, when few are left.
//
// Shards keep all devices busy while there are more jobs than devices (simulate.h), because a job is on one device at a
// time. Devices become idle when most jobs have ended or one is much longer than the others. From some time on, the
// remaining jobs therefore leave their shards and continue with plans for several devices (spase.h). The beginning and
// every time at which a job ends are tried; the best one is used, which may be never.
#pragma once

#include <vector>

#include "fleet/simulate.h"
#include "fleet/spase.h"

namespace heddle {

struct WideFleet {
  double makespan = 0;    // at most that of shards only
  double from = 0;        // when jobs leave their shards; the makespan: never
  FleetResult shards;     // until then
  SpaseSchedule several;  // after that; times count from `from`
  double bound = 0;       // lower bound on all schedules with these curves and shards
};

// `curves`: the seconds of each whole job on 2, 4, ... devices. Points of one device are ignored: on one device a job
// runs in shards and waits for copies as in SimulateFleet. `switch_seconds`: the cost of leaving shards, and of each
// later switch.
WideFleet WidenFleet(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                     const PolicyDef& policy, const std::vector<JobCurve>& curves,
                     double switch_seconds, const ResolveOptions& options = {});

// Both parts as one result. All devices of a job are busy except during switches.
FleetResult Combined(const WideFleet& wide);

}  // namespace heddle
