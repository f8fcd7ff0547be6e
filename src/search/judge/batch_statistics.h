// What statistics of the whole batch (batch normalisation) cost a plan: devices that share the batch exchange them at
// every such node, forward and backward.
#pragma once

#include <optional>

#include "search/interface/proposal.h"

namespace heddle {

// The same plan with `--batch-statistics local`: each micro-batch and each data shard normalises with its own
// statistics. That is another result than one device's.
struct LocalStatistics {
  double step_seconds = 0;
  double share = 0;  // of the step with global statistics that is saved
};

// Simulates the plan once more. Nothing where no node splits the batch and takes statistics of it, where they are local
// already, or where they cost at most a twentieth of the step.
std::optional<LocalStatistics> WithLocalStatistics(const SearchTask& task,
                                                   const JudgedPlan& judged);

}  // namespace heddle
