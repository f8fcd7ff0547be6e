// What searchers propose and what judging makes of it: the interface between searchers and judging.
//
// A searcher must be deterministic, must propose only sound plans (plan/verify.h), best guesses
// first, and must return soon after the deadline of the task's effort. It may be called from any
// thread, but not concurrently.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/interface/search_effort.h"

namespace heddle {

// The use of gradient factors and whole nodes in a plan (search/replicas/with_factors.h).
struct FactorUse {
  int64_t parameters = 0, nodes = 0;
  double reduced_seconds = 0;  // the step of the same plan without them
};

struct JudgedPlan;
struct Proposal;

// Makes a plan again, given the bytes that its program reserves on each device of the pipeline:
// recomputes more or fewer layers so that these just fit. Nothing where that changes nothing.
using Refit = std::function<std::optional<Proposal>(const std::vector<double>& reserved)>;
// Makes further plans of the same configuration that are too expensive to make for every proposal.
using Improve = std::function<std::vector<Proposal>()>;

struct Proposal {
  Plan plan;            // empty if `make` makes it
  std::string from;     // the searcher or rule that proposed it
  double estimate = 0;  // additive seconds; 0: not known
  double bytes = 0;     // estimated, of the device that needs most; 0: not known
  double bound = 0;     // lower bound on the step of its configuration; 0: not known
  std::optional<FactorUse> factors = {};
  std::shared_ptr<const JudgedPlan> judged = nullptr;  // if the searcher has judged it already
  Refit refit = nullptr;                               // null: the plan cannot be refitted
  Improve improve = nullptr;
  // Sets the plan, refit and improve when the proposal is judged, because most proposals never are.
  std::function<void(Proposal& proposal)> make = nullptr;
  // Plans of one kind have similar estimation errors; empty: derived from the plan (KindOf)
  std::vector<int64_t> kind = {};
  double spread = 0;  // how much estimation errors within the kind differ; 0: the usual amount
  double work = 0;    // SimulationSize; 0: derived from the plan

  const Plan& MakePlan() {
    if (std::function<void(Proposal&)> maker = std::move(make)) maker(*this);
    make = nullptr;
    return plan;
  }
};

struct Proposals {
  std::vector<Proposal> plans;
  size_t considered = 0;   // number of choices weighed
  double lower_bound = 0;  // on the step of any plan in the space searched; 0: not known
  double additive = 0,
         additive_bound = 0;  // the best additive objective, and a lower bound on it
  // Where nothing fits: the least bytes that a choice was estimated to need.
  double least_bytes = 0;
  std::string space;       // description of the space searched
  bool judge_all = false;  // judge every plan, without pruning
  // Further plans with estimates of up to `seconds`; null: there are none.
  std::function<std::vector<Proposal>(double seconds)> more = nullptr;
  // Waits for a closer bound that is computed while plans are judged, and sets it. Null: the bound
  // is final.
  std::function<void(Proposals& proposals)> close_bound = nullptr;
};

struct JudgedPlan {
  Plan plan;
  std::string from;
  bool simulated = true;  // false: its parameters alone do not fit
  bool in_space = false;  // it belongs to the space of the bound
  bool fits = false;
  int64_t least_bytes = 0;  // of parameters, on the device that holds most
  // Fewer than all: the step was extrapolated (judge/short_step.h)
  int64_t simulated_microbatches = 0;
  double estimate = 0, bound = 0;
  // Bytes allocated on the device that needs most, estimated before the simulation. If `replayed`,
  // by replaying the instruction list of the shortened step; otherwise by the searcher, or 0.
  double estimated_bytes = 0;
  bool replayed = false;
  std::optional<FactorUse> factors = {};
  Refit refit = nullptr;
  Improve improve = nullptr;
  std::vector<int64_t> kind = {};  // of the proposal it came from
  SimResult result;
  int64_t memory_limit = 0;                // what the device that needs most may use
  MemoryKinds memory;                      // bytes by kind on that device
  int64_t host_bytes = 0;                  // of offloaded state, on the machine that holds most
  std::optional<int64_t> host_limit = {};  // what a machine has for that; nothing: not known
  bool fits_host() const { return !host_limit || host_bytes <= *host_limit; }
  int64_t reserved() const { return simulated ? result.reserved_memory_bytes : least_bytes; }
};

// Plans that fit come first, the faster first; plans that do not fit are ordered by what they lack.
bool Better(const JudgedPlan& a, const JudgedPlan& b);

struct SearchResult {
  std::vector<JudgedPlan> judged;  // sorted by Better
  Proposals proposals;             // without their plans
  int64_t memory_limit = 0;
  bool stopped = false;  // the deadline ended the search
  double seconds = 0;

  bool feasible() const { return !judged.empty() && judged.front().fits; }
  double gap() const;  // relative gap of the additive objective
  // Relative gap of the best plan that fits and belongs to the space of the bound; 1 where there is
  // none.
  double step_gap() const;
};

struct SearcherDef {
  std::string_view name;
  std::string_view about;
  Proposals (*propose)(const SearchTask& task);
};

}  // namespace heddle
