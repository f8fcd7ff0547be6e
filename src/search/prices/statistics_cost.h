// What statistics of the whole batch (batch normalisation) cost along the data axis: every such node exchanges them with all
// data ranks, forward and backward. The prices of strategies (prices.h) know nothing of the data axis, so floors and
// estimates add this.
#pragma once

#include <vector>

#include "search/prices/prices.h"

namespace heddle {

struct StatisticsCost {
  double seconds = 0;  // of a micro-batch, all such nodes one after the other
  // What nothing hides: kernels that are there only because the sum is over all ranks, and latencies less the work of nodes
  // that come neither before nor after.
  double exposed_seconds = 0;
};

// `inner` are the axes beside the data axis. Nothing where no node takes statistics of the batch, or there is one rank.
StatisticsCost StatisticsAlong(const Prices& prices, int64_t data_ranks,
                               const std::vector<int64_t>& inner, int64_t microbatches);

}  // namespace heddle
