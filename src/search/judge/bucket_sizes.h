// Searches the size of gradient buckets by hill climbing on the simulated step.
//
// Gradients are reduced in buckets of about `Plan::bucket_bytes`. Every bucket costs the latency of
// a collective (two under ZeRO 1 and 2), and the last one is reduced after backward has ended. With
// many ranks few large buckets are best, on fast links small ones. No estimate predicts the best
// size. So the finalists that could be fastest if they waited less for communication are simulated
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
// Are the plans equal except for the size of their buckets?
bool DifferInBucketsAlone(const Plan& a, const Plan& b);

class BucketSizes {
 public:
  explicit BucketSizes(const SearchTask& task) : task_(task) {}

  // The next plans to judge. They are plans of `judged`, which is sorted, with another
  // bucket_bytes. Empty when finished; the number of rounds is limited.
  std::vector<Proposal> Next(const std::vector<JudgedPlan>& judged, double best_seconds);

 private:
  void ChoosePlans(const std::vector<JudgedPlan>& judged, double best_seconds);

  const SearchTask& task_;
  std::vector<Plan> plans_;  // plans whose bucket size is searched
  int rounds_ = 0;
};

}  // namespace heddle
