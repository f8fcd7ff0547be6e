#include "fleet/job_work.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {

double StepSeconds(const JobWork& job) {
  double seconds = 0;
  for (const ShardRun& run : job.runs) seconds += run.seconds;
  return seconds;
}

double TotalSeconds(const JobWork& job) {
  return StepSeconds(job) * static_cast<double>(job.steps);
}

FleetBound BoundOf(const std::vector<JobWork>& jobs, int64_t devices) {
  HEDDLE_CHECK(devices > 0);
  FleetBound bound;
  for (const JobWork& job : jobs) {
    double seconds = TotalSeconds(job);
    bound.longest_job = std::max(bound.longest_job, seconds);
    bound.work += seconds / static_cast<double>(devices);
  }
  return bound;
}

}  // namespace heddle
