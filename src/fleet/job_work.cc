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

JobWork WorkOf(const ModelCosts& costs, const std::vector<int>& ends) {
  JobWork work;
  std::vector<ShardCost> shards;
  std::vector<size_t> begins;
  int first = 0;
  for (int end : ends) {
    shards.push_back(CostOfShard(costs, first, end));
    begins.push_back(static_cast<size_t>(first));
    first = end;
  }
  begins.push_back(static_cast<size_t>(first));
  auto count = static_cast<int>(shards.size());
  for (int s = 0; s + 1 < count; ++s) {
    const ShardCost& shard = shards[static_cast<size_t>(s)];
    work.runs.push_back({.shard = s,
                         .backward = false,
                         .seconds = shard.forward,
                         .fetch_bytes = shard.copied,
                         .evict_bytes = shard.kept,
                         .boundary_in = costs.cut[begins[static_cast<size_t>(s)]],
                         .boundary_out = costs.cut[begins[static_cast<size_t>(s) + 1]],
                         .peak_bytes = shard.forward_peak});
  }
  for (int s = count - 1; s >= 0; --s) {
    const ShardCost& shard = shards[static_cast<size_t>(s)];
    size_t a = begins[static_cast<size_t>(s)], e = begins[static_cast<size_t>(s) + 1];
    bool last = s + 1 == count;
    work.runs.push_back({.shard = s,
                         .backward = true,
                         .seconds = shard.backward,
                         .fetch_bytes = shard.copied + shard.state + shard.kept,
                         .evict_bytes = shard.copied + shard.state,
                         .boundary_in = last ? costs.cut[a] : costs.cut_gradients[e],
                         .boundary_out = costs.cut_gradients[a],
                         .peak_bytes = shard.backward_peak});
  }
  for (const ParameterCost& parameter : costs.parameters) {
    work.host_bytes += parameter.copied + parameter.state;
  }
  for (const ShardCost& shard : shards) work.host_bytes += shard.kept;
  work.host_bytes += *std::max_element(costs.cut.begin(), costs.cut.end());
  return work;
}

}  // namespace heddle
