// What `heddle plan` says: one screen for people, one JSON object for programs.
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
  // Of a pruned model, the same search for all of its weights. Null: the model is not pruned, or dense it does not fit.
  const SearchResult* dense = nullptr;
  std::optional<LocalStatistics> local = {};  // where statistics of the whole batch cost much
  bool precision_auto = false;                // --precision auto chose it
};

std::string Screen(const PlanReport& report);
Json ToJson(const PlanReport& report);

}  // namespace heddle
