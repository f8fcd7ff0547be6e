// A plan with what its replicas had better compute whole than reduce, as a minimum cut decides (stage_cut.h): parameters
// whose gradients come from gathered factors (Stage::sync), and nodes that every replica computes for the whole batch.
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
  int64_t parameters = 0;  // that send factors
  int64_t nodes = 0;       // that are computed whole
  double saved = 0;        // seconds of a step, in additive costs: the simulator may see less
};

// Nothing where nothing gains, under ZeRO 2 and 3, and for stages on unlike devices. What the plan says of other parameters stays. `what` is
// kGradients or kNodes.
std::optional<Factored> WithFactors(const Model& model, const Plan& plan, const SimOptions& sim,
                                    Whole what);

// The parameters of all stages that a plan syncs so.
int64_t CountSync(const Plan& plan, GradientSync sync);

// The best of the plans judged, with what their replicas had better compute whole than reduce: gradients alone, and nodes
// too. Nothing of plans that wait for no traffic.
std::vector<Proposal> FactoredPlans(const SearchTask& task, const std::vector<JudgedPlan>& judged);

// The faster of a plan and the same with gradients by factors, as simulated.
Proposal FasterSync(const SearchTask& task, Proposal reduced);

}  // namespace heddle
