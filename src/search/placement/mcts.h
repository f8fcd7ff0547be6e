// The search on any cluster: exact where devices and links are alike, otherwise combined with a
// tree search over placements.
#pragma once

#include "search/interface/proposal.h"

namespace heddle {

SearcherDef AutoSearcher();
SearcherDef MctsSearcher();

// The origin of data-parallel plans with shares in proportion to speed.
constexpr std::string_view kProportional = "data in proportion to speed";

}  // namespace heddle
