// The seam between those who look for plans and the rest.
//
//   SearchProblem problem{.model = model, .cluster = cluster, .fixed = {.tp = 8}, ...};
//   SearchResult result = Search(*FindSearcher("auto"), problem);
//   result.feasible(), result.judged.front().plan, result.lower_bound
//
// A searcher proposes plans; Search judges them, all alike: lowered and simulated, their memory against what devices
// have. What it returns is ordered: plans that fit first, fastest first, then by how much is missing. The plan of data
// parallelism and the expert's are always judged, so that no searcher is worse; and the best ones again with what their
// replicas had better compute whole than reduce.
//
// A searcher must be deterministic, must propose sound plans only (plan/verify.h), best guesses first, and must return
// soon after `problem.deadline` has passed. It may be called from any thread, once at a time. A new one is a file with a
// function that returns its SearcherDef, declared in searchers.h and listed in searcher.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/expert.h"
#include "sim/simulate.h"

namespace heddle {

// What a user has decided; none: free.
struct FixedDegrees {
  std::optional<int64_t> dp = {}, tp = {}, pp = {}, microbatches = {};
  std::optional<int> zero = {}, chunks = {};
  std::optional<RecomputePolicy> recompute = {};
  std::optional<Offload> offload = {};
  std::optional<std::string> schedule = {};
  std::vector<int64_t> layers_per_stage = {};  // plan/expert.h; empty: free
};

// Are dp, tp and pp all decided? Then their product is the number of devices, and there is no context parallelism.
inline bool AreDegreesFixed(const FixedDegrees& fixed) { return fixed.dp && fixed.tp && fixed.pp; }

class Prior;

struct SearchProblem {
  const Model& model;
  const Cluster& cluster;
  FixedDegrees fixed = {};
  DType precision = DType::kBF16;
  DType gradients = DType::kF32;
  Products products = Products::kAsCompute;
  std::string optimizer = "adamw";
  bool local_batch_statistics = false;
  int64_t bucket_bytes = Plan{}.bucket_bytes;  // of gradients reduced together
  int64_t memory_limit = 0;                    // bytes a device may use; 0: what it has
  double reserve = 0.06;                // of that: contexts, libraries, what is not simulated
  std::vector<std::string> whole = {};  // names of parameters that are not to be split
  SimOptions sim = {};
  bool every_microbatch = false;  // simulate steps whole, however long that takes
  bool simulate_all = false;      // plans whose parameters do not fit, too
  Prior* prior = nullptr;         // of the tree search (search/placement/prior.h); null: all alike
  Pruning pruning = {};           // of the plans
  int64_t playouts = 0;           // of the tree search; 0: as many as it takes by itself
  size_t judged = 0;              // the most plans to simulate; 0: as many as a second or so allows
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* stop = nullptr;  // set: as if the deadline had come
  std::function<void(const std::string& what)> progress = nullptr;

  bool Over() const {
    return (stop != nullptr && *stop) || std::chrono::steady_clock::now() >= deadline;
  }
};

// What plans of the problem compute and reduce in.
Precision PrecisionOf(const SearchProblem& problem);

// The bytes a device may reserve: by the smallest, and of one.
int64_t MemoryLimit(const SearchProblem& problem);
int64_t MemoryLimit(const SearchProblem& problem, int64_t device);
// What a machine has for what is offloaded: its memory, or where that is its devices' own what they may not use of it.
// Nothing: not known.
std::optional<int64_t> HostLimit(const SearchProblem& problem);

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
      {};           // of plans whose estimates are wrong alike; empty: as the plan says (KindOf)
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
  Proposals (*propose)(const SearchProblem& problem);
};

std::span<const SearcherDef> AllSearchers();
const SearcherDef* FindSearcher(std::string_view name);  // nullptr: no such searcher

SearchResult Search(const SearcherDef& searcher, const SearchProblem& problem);

}  // namespace heddle
