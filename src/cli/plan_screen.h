// What `heddle plan` says: one screen for people, one JSON object for programs.
#pragma once

#include <string>

#include "base/json.h"
#include "search/searcher.h"

namespace heddle {

struct PlanReport {
  const Model& model;
  const SearchResult& result;
  std::string searcher;
  std::string output;  // the file the plan was written to, or empty
  double mtbf = 0;     // seconds between failures; 0: not given
  // Of a pruned model, the same search for all of its weights. Null: the model is not pruned, or dense it does not fit.
  const SearchResult* dense = nullptr;
};

std::string Screen(const PlanReport& report);
Json ToJson(const PlanReport& report);

// "dp 4  tp 2  pp 2  cp 1  ep 1  sp off", of the heaviest block.
Json DegreesJson(const Model& model, const Plan& plan);

}  // namespace heddle
