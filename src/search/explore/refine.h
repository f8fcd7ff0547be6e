// Solves the stages of a plan again, exactly, under their memory limits (limited.h).
//
// Estimates use strategies for three prices of memory, the same for all stages. Where memory is the
// constraint, this finds the best strategies for the memory that each stage may use. Its equal
// layers may differ; the whole stage has one recomputation policy.
#pragma once

#include <optional>

#include "search/explore/estimate.h"

namespace heddle {

struct Refined {
  Plan plan;
  double seconds = 0;  // estimated seconds of a step
};

// The plan with the stages that become faster. Nothing where no stage does, memory is not scarce,
// stages share devices (chunks), or stages keep more than activations (split backward). `share`: of
// the memory that stages may use.
std::optional<Refined> Refine(const SearchTask& task, const Prices& prices,
                              const Configuration& configuration, const Estimate& estimate,
                              const Plan& plan, double share);

}  // namespace heddle
