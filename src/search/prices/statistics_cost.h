// The cost of statistics over the whole batch (batch normalisation) along the data axis: every such
// node exchanges them with all data ranks, forward and backward. Prices (prices.h) do not know the
// data axis, so floors and estimates add this cost.
#pragma once

#include <vector>

#include "search/prices/prices.h"

namespace heddle {

struct StatisticsCost {
  double seconds = 0;  // of a micro-batch, all such nodes one after the other
  // The part that nothing hides: kernels that exist only because the sum is over all ranks, and
  // latencies less the work of nodes that neither precede nor follow the normalisation.
  double exposed_seconds = 0;
};

// `inner` are the axes beside the data axis. Zero where no node uses batch statistics or there is
// one data rank.
StatisticsCost StatisticsAlong(const Prices& prices, int64_t data_ranks,
                               const std::vector<int64_t>& inner, int64_t microbatches);

}  // namespace heddle
