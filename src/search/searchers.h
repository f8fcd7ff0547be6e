// Declares all searchers.
#pragma once

#include "search/expert/baselines.h"
#include "search/explore/exact_search.h"
#include "search/placement/mcts.h"
