// Plans for clusters of unlike devices made from the best ones on like devices: those on one type alone, so that more
// devices never make a plan worse, and the same with their data axis over other types as well, shared by speed.
#pragma once

#include "search/interface/proposal.h"
#include "search/placement/placement.h"

namespace heddle {

// Adds to `out`. Clusters of one type, or of more than four, have none.
void ProposeTypes(const SearchTask& task, const Placements& space, Proposals& out);

}  // namespace heddle
