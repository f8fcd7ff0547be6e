// The search on any cluster: exact where devices and links are alike, else with a tree search over placements beside it.
#pragma once

#include "search/interface/proposal.h"

namespace heddle {

SearcherDef AutoSearcher();
SearcherDef MctsSearcher();

// What plans of data parallelism come from, and with shares by speed.
constexpr std::string_view kProportional = "data in proportion to speed";

}  // namespace heddle
