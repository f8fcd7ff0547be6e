// The interface between policies, which choose the next job of a device, and their callers: the simulator of a fleet
// and the real executor.
//
//   const PolicyDef* policy = FindPolicy("lrtf");
//   size_t chosen = ChooseJob(*policy, candidates);       candidates[chosen].job runs next
//
// The caller asks when a device is free, and when the device begins a run, for the job whose shard is fetched during
// it. Candidates are jobs that have work left and are neither on another device nor promised to one. When a run begins,
// the job of the device is a candidate, too, in its state after the run.
//
// A policy is only an order of jobs: it has no state and no clock, and any thread may use it. ChooseJob compares jobs
// by priority, then by the policy, then prefers the job that is on the device, then the lower number. A new policy is a
// function and a line in the list in policy.cc. O(candidates).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace heddle {

// A job as a policy sees it.
struct JobState {
  int job = 0;
  int64_t priority = 0;
  double total_seconds = 0;      // of compute, for all of its steps
  double remaining_seconds = 0;  // of these, the part that is left
  // How much longer the device would wait for this job's shard than for the next shard of its current job.
  double exposed_seconds = 0;
  int64_t last_turn = 0;  // number of the last turn that it had, counted over all jobs; 0: none
  bool here = false;      // the asking device ran it last
};

struct PolicyDef {
  std::string_view name;
  std::string_view about;
  bool (*before)(const JobState& a, const JobState& b);  // a strict weak order
};

std::span<const PolicyDef> AllPolicies();            // the first is the default
const PolicyDef* FindPolicy(std::string_view name);  // null if there is none

// Returns an index into `candidates`, which must not be empty.
size_t ChooseJob(const PolicyDef& policy, std::span<const JobState> candidates);

}  // namespace heddle
