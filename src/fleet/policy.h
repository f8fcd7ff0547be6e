// The seam between those who decide which job a device runs next and those who run it: the simulator of a fleet and the
// real executor ask alike.
//
//   const PolicyDef* policy = FindPolicy("lrtf");
//   size_t chosen = ChooseJob(*policy, candidates);       candidates[chosen].job runs next
//
// The caller asks twice: when a device is free, and when it begins a run, for the job whose shard is brought in behind
// it. Candidates are jobs that have work left and are neither on another device nor promised to one; the second time
// the device's own job is one of them, as it will be after the run.
//
// A policy is an order of jobs and nothing else: no state, no clock, any thread. ChooseJob does the rest: jobs of higher
// priority first, then the policy's order, then the job that is on the device already, then the lower number. A new
// policy is a function and a line in the list of policy.cc. O(candidates).
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
  double total_seconds = 0;      // of compute, from its first step to its last
  double remaining_seconds = 0;  // of these, what is left
  // How much longer the device would wait for its shard than for that of the job it has.
  double exposed_seconds = 0;
  int64_t last_turn = 0;  // a count of turns given to all jobs, when it had its last; 0: none yet
  bool here = false;      // the device that asks ran it last
};

struct PolicyDef {
  std::string_view name;
  std::string_view about;
  bool (*before)(const JobState& a, const JobState& b);  // a strict weak order
};

std::span<const PolicyDef> AllPolicies();            // the first is the default
const PolicyDef* FindPolicy(std::string_view name);  // null: no such policy

// Of candidates, which are not none.
size_t ChooseJob(const PolicyDef& policy, std::span<const JobState> candidates);

}  // namespace heddle
