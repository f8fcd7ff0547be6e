// Plans whose weights live on the host and visit the device shard by shard (Offload::kAll), for
// models that fit in no other way.
//
// There is one stage, data parallel over all devices. Shards are cut so that half of the memory
// holds one (shards.h). The plan is lowered and simulated, and cut into smaller shards if it needs
// too much memory. The last shard keeps what its backward needs; the others recompute.
//
// Where memory is left, blocks before the last shard keep their activations on the device as well,
// the last blocks first and as many as fit, by what a block keeps and what simulated plans needed.
// Smaller shards leave more memory for this, so smaller and smaller shards are tried as long as
// steps become faster. The fastest plan is taken, the first of equals, so it is never slower than
// recomputing all of them. At most kMostJudged plans are simulated per number of micro-batches.
//
// Where nothing fits, the same is tried with 2, 4, ... micro-batches, for each of which the weights
// are fetched again.
#pragma once

#include <vector>

#include "search/interface/proposal.h"

namespace heddle {

constexpr int kMostJudged = 12;

// Judged plans. If only the host's memory is too small, plans that exceed it are included. Nothing
// where the fixed degrees, the devices or the precision do not allow it, or no cut fits; then
// `least` becomes the bytes that a device would need, where known.
std::vector<Proposal> SpilledPlans(const SearchTask& task, double* least);

}  // namespace heddle
