// A configuration and its estimate as a plan.
#pragma once

#include "search/explore/estimate.h"

namespace heddle {

// Sound (plan/verify.h) but for the model's source, which is the caller's to fill in.
// `hash` is the graph's StableHash.
Plan Assemble(const SearchProblem& problem, uint64_t hash, Prices& prices, Estimator& estimator,
              const Configuration& configuration, const Estimate& estimate);

// Strategies without the data axis, with it in front: along it nodes split the batch where they can.
std::vector<Strategy> WithDataAxis(const Model& model, std::vector<Strategy> strategies);

}  // namespace heddle
