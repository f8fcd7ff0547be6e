// Sufficient factor broadcasting: plans in which replicas gather the factors x and dy and compute a
// gradient locally instead of reducing it (Stage::sync), or compute whole nodes for the whole
// batch. A minimum cut decides for which parameters and nodes (stage_cut.h).
#pragma once

#include <cstdint>
#include <optional>

#include "plan/plan.h"
#include "search/interface/proposal.h"
#include "search/replicas/stage_cut.h"
#include "sim/options.h"

namespace heddle {

struct Factored {
  Plan plan;
  int64_t parameters = 0;  // whose factors are gathered
  int64_t nodes = 0;       // that every replica computes for the whole batch
  double saved = 0;        // seconds of a step by additive costs; the simulated gain may be smaller
};

// Nothing where nothing gains, under ZeRO 2 and 3, and for stages on unlike devices. The sync of
// other parameters does not change. `what` is kGradients or kNodes.
std::optional<Factored> WithFactors(const Model& model, const Plan& plan, const SimOptions& sim,
                                    Whole what);

// The number of parameters in all stages with this sync.
int64_t CountSync(const Plan& plan, GradientSync sync);

// Variants of the best judged plans with gradient factors alone, and with whole nodes as well.
// Nothing for plans that do not wait for communication.
std::vector<Proposal> FactoredPlans(const SearchTask& task, const std::vector<JudgedPlan>& judged);

// The faster of a plan and the same plan with gradient factors, by simulation.
Proposal FasterSync(const SearchTask& task, Proposal reduced);

}  // namespace heddle
