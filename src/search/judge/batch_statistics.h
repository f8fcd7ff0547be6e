// The cost of statistics over the whole batch (batch normalisation) in a plan: devices that share
// the batch exchange them at every such node, forward and backward.
#pragma once

#include <optional>

#include "search/interface/proposal.h"

namespace heddle {

// The same plan with `--batch-statistics local`: each micro-batch and data shard normalises with
// its own statistics, which changes the result.
struct LocalStatistics {
  double step_seconds = 0;
  double share = 0;  // share of the step that local statistics save
};

// Simulates the plan once more. Nothing where no node with batch statistics splits the batch, where
// statistics are local already, or where they cost at most 5 % of the step.
std::optional<LocalStatistics> WithLocalStatistics(const SearchTask& task,
                                                   const JudgedPlan& judged);

}  // namespace heddle
