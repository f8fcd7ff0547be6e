// What searchers propose, and what comes of it: the seam between those who look for plans and those who judge them.
//
// A searcher must be deterministic, must propose sound plans only (plan/verify.h), best guesses first, and must return
// soon after the deadline of the task's effort has passed. It may be called from any thread, once at a time.
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

// What replicas compute whole in place of reducing it (search/replicas/with_factors.h).
struct FactorUse {
  int64_t parameters = 0, nodes = 0;
  double reduced_seconds = 0;  // a step of the same plan without that
};

struct JudgedPlan;
struct Proposal;

// Makes a plan again from the bytes that its program reserves on each device of the pipeline, with more or fewer layers
// recomputed so that these just fit. Nothing where that changes nothing.
using Refit = std::function<std::optional<Proposal>(const std::vector<double>& reserved)>;
// Makes other plans of the same configuration: what costs too much to do for every proposal.
using Improve = std::function<std::vector<Proposal>()>;

struct Proposal {
  Plan plan;            // none where `make` makes it
  std::string from;     // which searcher, or rule
  double estimate = 0;  // additive seconds; 0: not known
  double bytes = 0;     // likewise, of the device that needs most
  double bound = 0;     // no plan of its degrees is faster; 0: not known
  std::optional<FactorUse> factors = {};
  std::shared_ptr<const JudgedPlan> judged = nullptr;  // where that was done on the way
  Refit refit = nullptr;                               // null: the plan is as it is
  Improve improve = nullptr;
  // Sets the plan, and how it is refitted and improved, once it is judged: most proposals never are.
  std::function<void(Proposal& proposal)> make = nullptr;
  std::vector<int64_t> kind =
      {};             // of plans whose estimates are wrong alike; empty: as the plan says (KindOf)
  double spread = 0;  // errors of estimates like this differ by so much; 0: by no more than usual
  double work = 0;    // SimulationSize; 0: as the plan says

  const Plan& MakePlan() {
    if (std::function<void(Proposal&)> maker = std::move(make)) maker(*this);
    make = nullptr;
    return plan;
  }
};

struct Proposals {
  std::vector<Proposal> plans;
  size_t considered = 0;   // choices that were weighed
  double lower_bound = 0;  // of a step of any plan in the space searched; 0: none is known
  double additive = 0,
         additive_bound = 0;  // the best additive objective and what it cannot be below
  double least_bytes = 0;     // the least any choice was estimated to need, where none fits
  std::string space;          // what was searched, in words
  bool judge_all = false;     // none of the plans is to be left out
  // Further plans, with estimates up to so many seconds; null: there are none.
  std::function<std::vector<Proposal>(double seconds)> more = nullptr;
  // Waits for a closer bound, which is computed beside judging, and sets it. Null: the bound is final.
  std::function<void(Proposals& proposals)> close_bound = nullptr;
};

struct JudgedPlan {
  Plan plan;
  std::string from;
  bool simulated = true;  // false: its parameters alone do not fit
  bool in_space = false;  // of the space that the bound is for
  bool fits = false;
  int64_t least_bytes = 0;             // of parameters, on the device that has most
  int64_t simulated_microbatches = 0;  // fewer than all: the rest at the pace of the slowest device
  double estimate = 0, bound = 0;
  // Allocated on the device that needs most, before the plan was simulated. `replayed`: as the list of instructions of the
  // shortened step says; otherwise as the searcher estimated, 0 where it did not.
  double estimated_bytes = 0;
  bool replayed = false;
  std::optional<FactorUse> factors = {};
  Refit refit = nullptr;
  Improve improve = nullptr;
  std::vector<int64_t> kind = {};  // of the proposal that it was in the end
  SimResult result;
  int64_t memory_limit = 0;                // what the worst device may use
  MemoryKinds memory;                      // of it
  int64_t host_bytes = 0;                  // of what is offloaded, on the machine that holds most
  std::optional<int64_t> host_limit = {};  // what it has for that; nothing: not known
  bool fits_host() const { return !host_limit || host_bytes <= *host_limit; }
  int64_t reserved() const { return simulated ? result.reserved_memory_bytes : least_bytes; }
};

// What fits comes first, and the faster of two that fit; of two that do not, that which lacks less.
bool Better(const JudgedPlan& a, const JudgedPlan& b);

struct SearchResult {
  std::vector<JudgedPlan> judged;  // in order
  Proposals proposals;             // without their plans
  int64_t memory_limit = 0;
  bool stopped = false;  // the deadline came first
  double seconds = 0;

  bool feasible() const { return !judged.empty() && judged.front().fits; }
  double gap() const;  // of the additive objective
  // Of the simulated step of the best plan that fits and is of the space that the bound is for; 1 where there is none.
  double step_gap() const;
};

struct SearcherDef {
  std::string_view name;
  std::string_view about;
  Proposals (*propose)(const SearchTask& task);
};

}  // namespace heddle
