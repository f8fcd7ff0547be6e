// The simulation of a fleet and its report.
#include <algorithm>

#include "fleet/widen.h"
#include "report/fleet.h"

namespace heddle {

FleetReport ReportOf(const PreparedFleet& fleet, const PolicyDef& policy) {
  const FleetMachine& machine = fleet.machine();
  const std::vector<JobWork>& works = fleet.works();
  FleetReport report;
  report.device = machine.type.name;
  report.policy = policy.name;
  report.policy_about = policy.about;
  report.devices = fleet.devices();
  report.device_bytes = machine.memory;
  report.buffer_bytes = fleet.buffer_bytes();
  report.host_limit = machine.host_limit;
  report.early_stopping = fleet.spec().halving.has_value();
  report.bound = BoundOf(works, machine.devices);
  if (fleet.several()) {
    WideFleet wide =
        WidenFleet(works, report.devices, policy, fleet.curves(), fleet.options().switch_seconds);
    report.result = Combined(wide);
    report.several = {wide.from, wide.bound, SimulateFleet(works, report.devices, policy).makespan,
                      wide.several.pieces};
  } else {
    report.result = SimulateFleet(works, report.devices, policy);
  }
  for (size_t j = 0; j < works.size(); ++j) {
    FleetReport::Job job;
    job.name = works[j].name;
    job.steps = works[j].steps;
    job.shard_ends = fleet.BlockEnds(j);
    job.step_seconds = StepSeconds(works[j]);
    job.total_seconds = TotalSeconds(works[j]);
    job.finished = report.result.finished[j];
    for (const ShardRun& run : works[j].runs) {
      job.peak_bytes = std::max(job.peak_bytes, run.peak_bytes);
    }
    job.host_bytes = works[j].host_bytes;
    Plan plan = fleet.PlanOf(j);
    const Stage& stage = plan.stages[0];
    for (int b = 0; b < stage.last_block && ShardOf(stage, b) + 1 < ShardCount(stage); ++b) {
      bool again = stage.recompute[static_cast<size_t>(b)] == RecomputePolicy::kFull;
      ++(again ? job.recomputed_blocks : job.kept_blocks);
    }
    report.jobs.push_back(std::move(job));
  }
  return report;
}

}  // namespace heddle
