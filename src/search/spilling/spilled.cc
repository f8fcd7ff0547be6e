#include "search/spilling/spilled.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "cluster/topology.h"
#include "plan/expert.h"
#include "search/judge/judge.h"
#include "search/spilling/shards.h"

namespace heddle {
namespace {

constexpr int kKeepTries = 3;
constexpr int64_t kMostMicrobatches = 32;

bool MaySpill(const SearchTask& task) {
  const FixedDegrees& fixed = task.fixed;
  bool free = fixed.tp.value_or(1) == 1 && fixed.pp.value_or(1) == 1 &&
              fixed.zero.value_or(0) == 0 && fixed.chunks.value_or(1) == 1 &&
              fixed.layers_per_stage.empty();
  // Spilling chooses the recomputation itself.
  bool wanted = fixed.offload ? *fixed.offload == Offload::kAll : !fixed.recompute;
  return free && wanted && CanOffload(task.cluster) && task.cluster.device_types.size() == 1 &&
         task.precision != DType::kF16 && task.gradients != DType::kF16;
}

class SpilledSearch {
 public:
  SpilledSearch(const SearchTask& task, const Degrees& degrees, const ModelCosts& costs)
      : task_(task), degrees_(degrees), costs_(costs), limit_(MemoryLimit(task)) {}

  std::shared_ptr<JudgedPlan> Run(double* least) {
    int64_t size = FindCut(least);
    if (!best_ || !best_->fits) return best_;
    without_ = best_->reserved();
    KeepMore(ends_, true);
    // Smaller shards leave more memory for what is kept.
    size_t shards = ends_.size();
    for (int worse = 0; worse < 2 && shards < Units() && size > 0 && MayJudge();) {
      int64_t smaller = size / 3 * 2;
      // For the running shard and the next one.
      without_ = std::max(int64_t{0}, without_ - 2 * (size - smaller));
      size = smaller;
      std::vector<int> ends = Cut(size);
      if (ends.size() <= shards) continue;
      shards = ends.size();
      worse = KeepMore(ends, false) ? 0 : worse + 1;
    }
    return best_;
  }

 private:
  bool MayJudge() const { return judged_ < kMostJudged && !task_.effort.Over(); }

  // The plan in which units from `kept` on keep what their backward needs.
  std::shared_ptr<JudgedPlan> JudgeCut(const std::vector<int>& ends, int kept) {
    ++judged_;
    task_.effort.Report(fmt::format("simulating weights on the host in {} shards", ends.size()));
    Plan plan = ExpertPlan(task_.model, task_.cluster, degrees_);
    plan.pruning = task_.pruning;
    Stage& stage = plan.stages[0];
    for (size_t e = 0; e + 1 < ends.size(); ++e) stage.shard_starts.push_back(EndOf(ends[e]));
    for (int b = 0; b < stage.last_block; ++b) {
      stage.recompute[static_cast<size_t>(b)] =
          b >= EndOf(kept) ? RecomputePolicy::kNone : RecomputePolicy::kFull;
    }
    return std::make_shared<JudgedPlan>(Judge(task_, {std::move(plan), "spilled"}));
  }

  // The end of a unit in blocks.
  int EndOf(int unit) const {
    return unit == 0 ? 0 : costs_.block_ends[static_cast<size_t>(unit - 1)];
  }
  static int LastShard(const std::vector<int>& ends) {
    return ends.size() < 2 ? 0 : ends[ends.size() - 2];
  }

  size_t Units() const { return static_cast<size_t>(costs_.units); }

  // Shards of at most this many bytes, or of one unit. Empty where some unit cannot fit.
  std::vector<int> Cut(int64_t size) const {
    return CutIntoShards(costs_, {.memory = limit_, .buffer = size, .any_unit = true})
        .value_or(std::vector<int>());
  }

  // The largest shards that fit with all but the last recomputed, or for which the host has too
  // little memory; returns the bytes that they were cut for.
  int64_t FindCut(double* least) {
    size_t shards = 0;  // of the cut that was judged last
    for (int64_t size = limit_ / 2; shards < Units() && size > 0 && MayJudge();) {
      std::vector<int> ends = Cut(size);
      if (ends.empty()) {
        for (int u = 0; u < costs_.units; ++u)
          *least = std::max(*least, static_cast<double>(CostOfShard(costs_, u, u + 1).peak()));
        return 0;
      }
      double share = 0.75;
      if (ends.size() > shards) {
        shards = ends.size();
        auto judged = JudgeCut(ends, LastShard(ends));
        if (judged->fits || !judged->fits_host()) {
          ends_ = std::move(ends);
          best_ = std::move(judged);
          return size;
        }
        auto reserved = static_cast<double>(judged->reserved());
        *least = *least == 0 ? reserved : std::min(*least, reserved);
        share = static_cast<double>(limit_) / reserved;
      }
      size = static_cast<int64_t>(static_cast<double>(size) * std::clamp(share, 0.5, 0.9));
    }
    return 0;
  }

  // The bytes that the units from `kept` to the last shard keep in addition, compared with
  // recomputing them.
  int64_t KeptMore(int kept, int last) const {
    auto between = [&](const ListCosts& list) {
      return list.kept[static_cast<size_t>(last)] - list.kept[static_cast<size_t>(kept)];
    };
    return std::max(int64_t{0}, between(costs_.whole) - between(costs_.recomputed));
  }

  bool WouldFit(int kept, int last) const { return without_ + KeptMore(kept, last) <= limit_; }

  // Finds the fewest recomputed units that fit, based on what the last judged plan needs.
  // `was_judged`: the plan that recomputes all was judged. Returns whether a new best plan was
  // found.
  bool KeepMore(const std::vector<int>& ends, bool was_judged) {
    const int last = LastShard(ends);
    bool better = false;
    int fits = was_judged ? last : last + 1, fails = -1;  // numbers of recomputed units
    double shortest = 0;                                  // of plans that keep more and do not fit
    for (int tries = 0; tries < kKeepTries && fits - fails > 1 && MayJudge(); ++tries) {
      if (fits <= last && !WouldFit(fits - 1, last)) break;
      int kept = fits - 1;
      while (kept > fails + 1 && WouldFit(kept - 1, last)) --kept;
      auto judged = JudgeCut(ends, kept);
      without_ = judged->reserved() - KeptMore(kept, last);
      (judged->fits ? fits : fails) = kept;
      // Keeping less is slower still.
      if (judged->result.step_seconds >= best_->result.step_seconds) break;
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

  const SearchTask& task_;
  const Degrees& degrees_;
  const ModelCosts& costs_;
  const int64_t limit_;
  int judged_ = 0;
  std::vector<int> ends_;  // of the cut that was found first
  int64_t without_ = 0;    // approximate bytes of a cut that keeps nothing in addition
  std::shared_ptr<JudgedPlan> best_;
};

// The best plan for so many devices and micro-batches; null where none fits a device. `least`: the
// bytes that earlier plans would need.
std::shared_ptr<JudgedPlan> SpillOver(const SearchTask& task, int64_t devices, int64_t microbatches,
                                      double* least) {
  int64_t batch = BatchSize(task.model), parts = devices * microbatches;
  if (parts > 1 && (batch == 0 || batch % parts != 0)) return nullptr;
  Degrees degrees{.dp = devices,
                  .microbatches = microbatches,
                  .offload = Offload::kAll,
                  .precision = task.precision,
                  .local_batch_statistics = task.local_batch_statistics,
                  .gradients = task.gradients,
                  .products = task.products};
  ModelCosts costs;
  try {
    std::optional<Model> part;
    if (parts > 1) part = Analyse(Rebatch(task.model.graph, batch / parts));
    costs = FindModelCosts(part ? *part : task.model, task.cluster,
                           {.precision = task.precision,
                            .optimizer = task.optimizer,
                            .pruning = task.pruning,
                            .local_batch_statistics = true,
                            .sim = task.sim});
  } catch (const InputError&) {
    return nullptr;  // the batch cannot be divided
  }
  double needed = 0;
  std::shared_ptr<JudgedPlan> best = SpilledSearch(task, degrees, costs).Run(&needed);
  if (needed > 0) *least = *least == 0 ? needed : std::min(*least, needed);
  return best;
}

}  // namespace

std::vector<Proposal> SpilledPlans(const SearchTask& task, double* least) {
  if (!MaySpill(task)) return {};
  int64_t devices = task.fixed.dp.value_or(DeviceCount(task.cluster));
  if (devices < 1) return {};
  int64_t first = task.fixed.microbatches.value_or(1);
  int64_t last = task.fixed.microbatches.value_or(kMostMicrobatches);
  std::shared_ptr<JudgedPlan> best;
  for (int64_t m = first; m <= last && !best && !task.effort.Over(); m *= 2)
    best = SpillOver(task, devices, m, least);
  if (!best) return {};
  Proposal proposal{best->plan, best->from};
  proposal.judged = best;
  return {proposal};
}

}  // namespace heddle
