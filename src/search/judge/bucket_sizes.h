// The size of gradient buckets, searched by hill climbing on the simulated step.
//
// Gradients are reduced in buckets of about `Plan::bucket_bytes`. Every bucket costs the latency of a collective, twice with
// ZeRO 1 and 2, and the last one is reduced when backward has ended. Many ranks want few large buckets, fast links small
// ones. No estimate knows the best size, so the finalists that could be fastest if they waited less for traffic are simulated
// with buckets four times larger and smaller, then twice, as long as that helps.
//
//   BucketSizes sizes(task);
//   while (!(plans = sizes.Next(judged, best_seconds)).empty()) { judge all of them; }
#pragma once

#include <string>
#include <vector>

#include "search/interface/proposal.h"

namespace heddle {

// ", buckets of 128 MiB": a part of a plan's name.
std::string BucketsInWords(int64_t bytes);
// Are the plans the same, or is the size of buckets all that differs?
bool DifferInBucketsAlone(const Plan& a, const Plan& b);

class BucketSizes {
 public:
  explicit BucketSizes(const SearchTask& task) : task_(task) {}

  // Plans to judge next. They differ from plans in `judged`, which are sorted, in bucket_bytes alone. Empty: there are no
  // more. The number of rounds is limited.
  std::vector<Proposal> Next(const std::vector<JudgedPlan>& judged, double best_seconds);

 private:
  void ChoosePlans(const std::vector<JudgedPlan>& judged, double best_seconds);

  const SearchTask& task_;
  std::vector<Plan> plans_;  // whose bucket sizes are searched
  int rounds_ = 0;
};

}  // namespace heddle
