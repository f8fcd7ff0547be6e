// Fits constants of the cost model to measured steps, and predicts steps that they were not fitted on.
//
// A predicted step is a sum of terms (cost/terms.h), each proportional to constants of its device and of its software
// stack. With x = log(constant / default), the fit minimises
//
//   sum over sources of the mean over its runs of (log predicted - log measured)^2 / kErrorScale^2  +  sum x^2 /
//                                                                                                   scale^2
//
// by Gauss-Newton. Every source has the same weight, and a constant with few runs stays near its default. Terms are
// those of the critical path with the current constants; after a change of constants the runs must be simulated again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validate/predict.h"

namespace heddle {

// Factors by name, such as "a100 products" or "llm-foundry attention": the time with the constant / that with its
// default.
using FitFactors = std::map<std::string, double>;

// The factors of the tables in cost/constants.cc, for the devices and stacks of the predictions.
FitFactors CurrentFactors(const std::vector<Prediction>& rows);

// The factors fitted to all rows that have an error, except those of source `without`.
FitFactors Fit(const std::vector<Prediction>& rows, const std::string& without = "");

// The prediction of a row with factors other than those of its simulation.
double Repredict(const Prediction& row, const FitFactors& current, const FitFactors& fitted);

}  // namespace heddle
