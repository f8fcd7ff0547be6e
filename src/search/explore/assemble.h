// Makes a plan of a configuration and its estimate.
#pragma once

#include "search/explore/estimate.h"

namespace heddle {

// A sound plan (plan/verify.h) except for the model's source, which the caller fills in. `hash` is
// the graph's StableHash.
Plan Assemble(const SearchProblem& problem, uint64_t hash, Prices& prices, Estimator& estimator,
              const Configuration& configuration, const Estimate& estimate);

// Puts the data axis in front of strategies for the other axes: along it nodes split the batch
// where they can.
std::vector<Strategy> WithDataAxis(const Model& model, std::vector<Strategy> strategies);

}  // namespace heddle
