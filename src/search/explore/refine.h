// The strategies of a plan's stages under their limits on memory, exactly (limited.h).
//
// An estimate knows strategies for three prices of memory, the same for all stages. Where memory binds, what a stage
// may use is given here and strategies are found for it, its equal layers free to differ; a policy of recomputation is
// tried for the whole stage.
#pragma once

#include <optional>

#include "search/explore/estimate.h"

namespace heddle {

struct Refined {
  Plan plan;
  double seconds = 0;  // of a step, as estimated
};

// The plan with the stages that are quicker so; nothing where none is, nothing is short of memory, or stages share
// devices (chunks) or keep more than activations (a backward in two parts). `share`: of the room that stages have.
std::optional<Refined> Refine(const SearchTask& task, const Prices& prices,
                              const Configuration& configuration, const Estimate& estimate,
                              const Plan& plan, double share);

}  // namespace heddle
