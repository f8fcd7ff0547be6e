// The output of `heddle explain`: what determines the speed of a plan, and what would make another plan faster.
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

// Another plan for the same problem.
struct Rival {
  std::string plan;  // DescribePlan
  SimResult result;
  bool fits = false;
  std::vector<std::pair<Knob, std::optional<double>>>
      flips;  // of the knobs that were tried; nullopt: no flip
};

struct Explanation {
  std::string model, cluster, plan;
  int64_t batch = 0, microbatches = 1;
  SimResult result;
  bool fits = false;
  int64_t memory_limit = 0;  // bytes a device may use
  std::vector<BlockGroup> groups;
  int64_t factor_parameters = 0;  // parameters whose gradients come from gathered factors
  double reduced_seconds = 0;     // the step if these gradients were reduced instead
  int64_t traffic_device = 0;
  std::vector<StepTraffic> traffic;  // of that device, without that of nodes

  std::optional<Rival> rival;             // the best different plan
  size_t considered = 0;                  // configurations that the search evaluated
  std::optional<Rival> with_more_memory;  // a plan that does not fit but is faster than all that do
  int64_t missing_bytes = 0;              // memory per device that it lacks

  // True if the rival fits and is faster, or this plan does not fit.
  bool is_beaten() const;
};

// About a page of text: a table per group of blocks, the step, the rival.
std::string Screen(const Explanation& explanation);
Json ToJson(const Explanation& explanation);

}  // namespace heddle
