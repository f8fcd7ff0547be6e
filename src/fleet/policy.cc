#include "fleet/policy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace heddle {
namespace {

// Hydra's Sharded-LRTF. If runs are short compared with jobs, the longest jobs end at about the same time. If a change
// of jobs makes the device wait for e seconds, it is made only if the other job has d seconds more left than the
// current one, so that changes are d seconds apart. Of the remaining time r this loses r e / d in waits, and d at the
// end, where jobs differ by that much. The sum is smallest at d = sqrt(r e).
double LrtfKey(const JobState& job) {
  return job.remaining_seconds - std::sqrt(job.remaining_seconds * job.exposed_seconds);
}
bool LongerRemaining(const JobState& a, const JobState& b) { return LrtfKey(a) > LrtfKey(b); }

bool LongerTotal(const JobState& a, const JobState& b) { return a.total_seconds > b.total_seconds; }

bool LongerSinceTurn(const JobState& a, const JobState& b) { return a.last_turn < b.last_turn; }

constexpr PolicyDef kPolicies[] = {
    {"lrtf", "longest remaining time first, shard by shard (Hydra's Sharded-LRTF)",
     LongerRemaining},
    {"longest", "longest job first, by its time from beginning to end", LongerTotal},
    {"round-robin", "the job that has waited longest since its last turn", LongerSinceTurn},
};

bool GoesBefore(const PolicyDef& policy, const JobState& a, const JobState& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  if (policy.before(a, b)) return true;
  if (policy.before(b, a)) return false;
  if (a.here != b.here) return a.here;
  return a.job < b.job;
}

}  // namespace

std::span<const PolicyDef> AllPolicies() { return kPolicies; }

const PolicyDef* FindPolicy(std::string_view name) {
  auto at = std::find_if(std::begin(kPolicies), std::end(kPolicies),
                         [&](const PolicyDef& policy) { return policy.name == name; });
  return at == std::end(kPolicies) ? nullptr : at;
}

size_t ChooseJob(const PolicyDef& policy, std::span<const JobState> candidates) {
  HEDDLE_CHECK(!candidates.empty());
  size_t best = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (GoesBefore(policy, candidates[i], candidates[best])) best = i;
  }
  return best;
}

}  // namespace heddle
