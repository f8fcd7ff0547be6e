// What `heddle explain` says of a plan: why it is as fast as it is, and what would make another win.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "report/block_groups.h"
#include "report/break_even.h"
#include "sim/simulate.h"

namespace heddle {

// Another plan of the same problem.
struct Rival {
  std::string plan;  // DescribePlan
  SimResult result;
  bool fits = false;
  std::vector<std::pair<Knob, std::optional<double>>> flips;  // those that were tried
};

struct Explanation {
  std::string model, cluster, plan;
  int64_t batch = 0, microbatches = 1;
  SimResult result;
  bool fits = false;
  int64_t memory_limit = 0;  // bytes a device may use
  std::vector<BlockGroup> groups;
  int64_t factor_parameters = 0;  // whose gradients come from gathered factors
  double reduced_seconds = 0;     // a step in which they are reduced
  int64_t traffic_device = 0;
  std::vector<StepTraffic> traffic;  // of that device, besides that of nodes

  std::optional<Rival> rival;  // the best plan that differs
  size_t considered = 0;       // configurations the search weighed
  std::optional<Rival> with_more_memory;  // faster than all that fit
  int64_t missing_bytes = 0;   // of memory per device, for that one

  // The rival fits and is faster, or this plan does not fit at all.
  bool is_beaten() const;
};

// About a page: a table per group of blocks, the step, the rival.
std::string Screen(const Explanation& explanation);
Json ToJson(const Explanation& explanation);

}  // namespace heddle
