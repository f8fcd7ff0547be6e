// The output of `heddle plan`: a screen of text, or one JSON object.
#pragma once

#include <string>

#include "base/json.h"
#include "search/judge/batch_statistics.h"
#include "search/searcher.h"

namespace heddle {

struct PlanReport {
  const Model& model;
  const SearchResult& result;
  std::string searcher;
  std::string output;  // the file the plan was written to, or empty
  double mtbf = 0;     // seconds between failures; 0: not given
  // The same search for the model before pruning. Null: the model is not pruned, or the dense model does not fit.
  const SearchResult* dense = nullptr;
  std::optional<LocalStatistics> local = {};  // set if statistics of the whole batch cost much
  bool precision_auto = false;                // the precision is the choice of --precision auto
};

std::string Screen(const PlanReport& report);
Json ToJson(const PlanReport& report);

}  // namespace heddle
