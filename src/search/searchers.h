// The searchers there are.
#pragma once

#include "search/searcher.h"

namespace heddle {

SearcherDef AutoSearcher();
SearcherDef DataSearcher();
SearcherDef ExpertSearcher();

}  // namespace heddle
