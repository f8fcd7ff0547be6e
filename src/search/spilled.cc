#include "search/spilled.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/topology.h"
#include "plan/expert.h"
#include "search/judge.h"
#include "search/shards.h"

namespace heddle {
namespace {

constexpr int kCutTries = 8, kKeepTries = 3;

bool MaySpill(const SearchProblem& problem) {
  const FixedDegrees& fixed = problem.fixed;
  bool free = fixed.tp.value_or(1) == 1 && fixed.pp.value_or(1) == 1 &&
              fixed.zero.value_or(0) == 0 && fixed.layers_per_stage.empty();
  // What is recomputed is its own choice.
  bool wanted = fixed.offload ? *fixed.offload == Offload::kAll : !fixed.recompute;
  return free && wanted && CanOffload(problem.cluster) &&
         problem.cluster.device_types.size() == 1 && problem.precision != DType::kF16 &&
         problem.gradients != DType::kF16 && BatchSize(problem.model) > 0;
}

class SpilledSearch {
 public:
  SpilledSearch(const SearchProblem& problem, const Degrees& degrees, const ModelCosts& costs)
      : problem_(problem), degrees_(degrees), costs_(costs), limit_(MemoryLimit(problem)) {}

  std::shared_ptr<JudgedPlan> Run(double* least) {
    int64_t memory = FindCut(least);
    if (!best_) return nullptr;
    size_t shards = ends_.size();
    KeepMore(ends_, best_->reserved(), true);
    // Smaller shards, which leave more memory to what is kept.
    for (int worse = 0; worse < 2 && MayJudge();) {
      memory = memory / 4 * 3;
      FleetShards smaller = CutFleet({&costs_}, memory);
      if (!smaller.feasible) break;
      if (smaller.ends[0].size() <= shards) continue;
      shards = smaller.ends[0].size();
      worse = KeepMore(smaller.ends[0], memory, false) ? 0 : worse + 1;
    }
    return best_;
  }

 private:
  bool MayJudge() const { return judged_ < kMostJudged && !problem_.Over(); }

  // Units from `kept` on keep what backward needs.
  std::shared_ptr<JudgedPlan> JudgeCut(const std::vector<int>& ends, int kept) {
    ++judged_;
    Plan plan = ExpertPlan(problem_.model, problem_.cluster, degrees_);
    plan.pruning = problem_.pruning;
    Stage& stage = plan.stages[0];
    for (size_t e = 0; e + 1 < ends.size(); ++e) stage.shard_starts.push_back(EndOf(ends[e]));
    for (int b = 0; b < stage.last_block; ++b) {
      stage.recompute[static_cast<size_t>(b)] =
          b >= EndOf(kept) ? RecomputePolicy::kNone : RecomputePolicy::kFull;
    }
    return std::make_shared<JudgedPlan>(Judge(problem_, {std::move(plan), "spilled"}));
  }

  // Blocks before a unit.
  int EndOf(int unit) const {
    return unit == 0 ? 0 : costs_.block_ends[static_cast<size_t>(unit - 1)];
  }
  static int LastShard(const std::vector<int>& ends) {
    return ends.size() < 2 ? 0 : ends[ends.size() - 2];
  }

  // The largest shards that fit with all but the last recomputed, and the memory they were cut for.
  int64_t FindCut(double* least) {
    int64_t memory = limit_, reserved = 0;  // the least so far
    for (int tries = 0; tries < kCutTries && memory > 0 && !problem_.Over(); ++tries) {
      FleetShards shards = CutFleet({&costs_}, memory);
      if (!shards.feasible) {
        *least = static_cast<double>(reserved > 0 ? reserved : shards.needed);
        return 0;
      }
      auto judged = JudgeCut(shards.ends[0], LastShard(shards.ends[0]));
      if (!judged->fits && !judged->fits_host()) return 0;
      if (judged->fits) {
        ends_ = std::move(shards.ends[0]);
        best_ = std::move(judged);
        return memory;
      }
      reserved = reserved == 0 ? judged->reserved() : std::min(reserved, judged->reserved());
      *least = static_cast<double>(reserved);
      double share = static_cast<double>(limit_) / static_cast<double>(judged->reserved());
      memory = static_cast<int64_t>(static_cast<double>(memory) * std::clamp(share, 0.7, 0.97));
    }
    return 0;
  }

  // Bytes that units from `kept` to the last shard keep more than if they were recomputed.
  int64_t KeptMore(int kept, int last) const {
    auto between = [&](const ListCosts& list) {
      return list.kept[static_cast<size_t>(last)] - list.kept[static_cast<size_t>(kept)];
    };
    return std::max(int64_t{0}, between(costs_.whole) - between(costs_.recomputed));
  }

  // The fewest units recomputed that fit, by what the plan judged last takes. `reserved`: about what the cut takes where
  // all are, `was_judged` where that plan was. Is there a new best one?
  bool KeepMore(const std::vector<int>& ends, int64_t reserved, bool was_judged) {
    const int last = LastShard(ends);
    bool better = false;
    int fits = was_judged ? last : last + 1, fails = -1;  // units that are recomputed
    int64_t without = reserved;                           // where nothing more is kept
    double shortest = 0;                                  // of plans that keep more and do not fit
    for (int tries = 0; tries < kKeepTries && fits - fails > 1 && MayJudge(); ++tries) {
      int kept = fits - 1;
      while (kept > fails + 1 && without + KeptMore(kept - 1, last) <= limit_) --kept;
      auto judged = JudgeCut(ends, kept);
      without = judged->reserved() - KeptMore(kept, last);
      (judged->fits ? fits : fails) = kept;
      if (judged->result.step_seconds >= best_->result.step_seconds) break;  // nor with less kept
      if (!judged->fits) {
        shortest = judged->result.step_seconds;
        continue;
      }
      best_ = std::move(judged);
      better = true;
      if (best_->result.step_seconds <= shortest) break;
    }
    return better;
  }

  const SearchProblem& problem_;
  const Degrees& degrees_;
  const ModelCosts& costs_;
  const int64_t limit_;
  int judged_ = 0;
  std::vector<int> ends_;  // of the cut that was found first
  std::shared_ptr<JudgedPlan> best_;
};

}  // namespace

std::vector<Proposal> SpilledPlans(const SearchProblem& problem, double* least) {
  if (!MaySpill(problem)) return {};
  int64_t batch = BatchSize(problem.model);
  int64_t devices = problem.fixed.dp.value_or(DeviceCount(problem.cluster));
  int64_t microbatches = problem.fixed.microbatches.value_or(1);
  if (devices < 1 || batch % (devices * microbatches) != 0) return {};
  Degrees degrees{.dp = devices,
                  .microbatches = microbatches,
                  .offload = Offload::kAll,
                  .precision = problem.precision,
                  .local_batch_statistics = problem.local_batch_statistics,
                  .gradients = problem.gradients,
                  .products = problem.products};
  ModelCosts costs;
  try {
    Model part = Analyse(Rebatch(problem.model.graph, batch / (devices * microbatches)));
    costs = FindModelCosts(part, problem.cluster,
                           {.precision = problem.precision,
                            .optimizer = problem.optimizer,
                            .pruning = problem.pruning,
                            .local_batch_statistics = true,
                            .sim = problem.sim});
  } catch (const InputError&) {
    return {};  // its batch cannot be divided
  }
  std::shared_ptr<JudgedPlan> best = SpilledSearch(problem, degrees, costs).Run(least);
  if (!best) return {};
  Proposal proposal{best->plan, best->from};
  proposal.judged = best;
  return {proposal};
}

}  // namespace heddle
