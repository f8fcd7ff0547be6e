// A plan in one line.
#pragma once

#include <string>

#include "plan/plan.h"

namespace heddle {

// "dp 2 x tp 2 x pp 2, 8 devices, 4 micro-batches, 1f1b, ZeRO 1, bf16, recompute full".
std::string DescribePlan(const Plan& plan);

// ", optimizer on the host", or with the numbers of shards of all stages; empty where nothing is offloaded.
std::string OffloadInWords(const Plan& plan);

}  // namespace heddle
