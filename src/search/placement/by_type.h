// Plans for clusters of unlike devices, made from the best plans on like devices: plans on one type
// alone, so that adding devices never makes the result worse, and the same with their data axis
// widened over other types, with shares by speed.
#pragma once

#include "search/interface/proposal.h"
#include "search/placement/placement.h"

namespace heddle {

// Adds plans to `out`; none on clusters of one type or of more than four.
void ProposeTypes(const SearchTask& task, const Placements& space, Proposals& out);

}  // namespace heddle
