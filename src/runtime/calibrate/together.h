// Numbers that every rank has some of.
//
//   Together together(transport);
//   together.Sum(table);                    // on all ranks, which then all have the sums
#pragma once

#include <ATen/ATen.h>

#include <numeric>
#include <vector>

#include "runtime/transport/transport.h"

namespace heddle {

class Together {
 public:
  explicit Together(Transport& transport) : transport_(transport) {
    std::vector<int> ranks(static_cast<size_t>(transport.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    all_ = transport.AddGroup(ranks);
  }

  void Sum(at::Tensor& numbers) { Reduce(Reduction::kSum, numbers); }
  void Max(at::Tensor& numbers) { Reduce(Reduction::kMax, numbers); }
  GroupHandle all() const { return all_; }

 private:
  void Reduce(Reduction reduction, at::Tensor& numbers) {
    Ticket ticket = transport_.Start(CollectiveKind::kAllReduce, reduction, all_, numbers, numbers);
    transport_.Wait(ticket);
  }

  Transport& transport_;
  GroupHandle all_;
};

}  // namespace heddle
