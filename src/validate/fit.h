// Constants of the cost model from measured steps, and how well they predict what they were not fitted on.
//
// A predicted step is a sum of terms (cost/terms.h), each in proportion to constants of its device and of its software
// stack. With x the logarithms of the constants over their defaults, the fit minimises
//
//   sum over sources of the mean over its runs of (log predicted - log measured)^2 / kErrorScale^2  +  sum x^2 / scale^2
//
// by Gauss-Newton: every source weighs the same, and a constant that few runs speak of stays near its default. Terms are
// those of the critical path at the constants as they stand; after a change of constants the runs are simulated anew.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validate/predict.h"

namespace heddle {

// By name, such as "a100 products" or "llm-foundry attention": the constant's time over that at its default.
using FitFactors = std::map<std::string, double>;

// As the tables of cost/constants.cc have them, for the devices and stacks of the predictions.
FitFactors CurrentFactors(const std::vector<Prediction>& rows);

// The factors fitted to the rows that have an error, but those of source `without`.
FitFactors Fit(const std::vector<Prediction>& rows, const std::string& without = "");

// A row's prediction with other factors than those it was simulated with.
double Repredict(const Prediction& row, const FitFactors& current, const FitFactors& fitted);

}  // namespace heddle
