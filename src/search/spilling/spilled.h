// Plans whose weights live on the host and visit the device shard by shard (Offload::kAll): for models that fit no other
// way.
//
// One stage, data parallel over all devices. Shards are cut so that half the memory holds one (shards.h); the plan is lowered
// and simulated, and where it takes more than there is, cut again into smaller ones. The last shard keeps what its backward
// needs, the others recompute.
//
// Where memory is left, blocks before the last shard keep theirs on the device as well, the last ones first: as many as
// fit, by what a block keeps and what simulated plans took. Smaller shards leave more memory to that, so cuts into
// smaller and smaller ones are tried as long as steps become faster. The fastest is taken, of equals the
// first: never slower than recomputing all of them. At most kMostJudged plans are simulated for a number of
// micro-batches.
//
// Where nothing fits the same is tried with 2, 4, ... micro-batches, for all of which weights come anew.
#pragma once

#include <vector>

#include "search/interface/proposal.h"

namespace heddle {

constexpr int kMostJudged = 12;

// Judged; one that fits no host where that alone is missing. Nothing where degrees that are fixed, the devices or the precision
// do not allow it, or nothing can be cut so that it fits; `least` are the bytes then that a device would need, where that is
// known.
std::vector<Proposal> SpilledPlans(const SearchTask& task, double* least);

}  // namespace heddle
