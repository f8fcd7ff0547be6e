#include "search/run_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "plan/axes.h"
#include "search/expert/expert_grid.h"
#include "search/judge/bucket_sizes.h"
#include "search/judge/finalists.h"
#include "search/replicas/with_factors.h"
#include "search/searchers.h"
#include "search/solver/problem.h"
#include "search/spilling/spilled.h"

namespace heddle {
namespace {

bool IsThere(const std::vector<Proposal>& plans, const Plan& plan) {
  return std::any_of(plans.begin(), plans.end(),
                     [&](const Proposal& other) { return other.plan == plan; });
}

// Judges the proposals of a searcher, of the expert's grid and of the baselines, then improves the best plans.
class Judging {
 public:
  Judging(const SearcherDef& searcher, const SearchTask& task, SearchResult& out)
      : searcher_(searcher), task_(task), out_(out), finalists_(task, out) {
    bool spilled = task_.fixed.offload == Offload::kAll;
    if (!spilled) ladders_ = std::async(std::launch::async, [this] { return ProposeLadders(); });
  }

  void Run() {
    if (task_.fixed.offload == Offload::kAll) {
      finalists_.JudgeAll(SpilledPlans(task_, &out_.proposals.least_bytes));
      out_.proposals.considered = out_.judged.size();
      return;
    }
    Propose();
    LogPhase("proposing");
    bool over = task_.effort.Over();
    JudgeProposals(std::move(out_.proposals.plans));
    out_.proposals.plans.clear();
    if (task_.effort.judged != 1) {
      JudgeSplitBackward();
      Improve();
    }
    LogPhase("improving");
    // If nothing fits, or only with the optimizer state on the host, a plan with all state on the host may be faster.
    double least = 0;  // unused: the report names the least bytes of the searcher's own plans
    if (!out_.feasible() || out_.judged.front().plan.offload != Offload::kNone) {
      finalists_.JudgeAll(SpilledPlans(task_, &least));
    }
    out_.proposals.considered = std::max(out_.proposals.considered, out_.judged.size());
    CheckBest();
    out_.stopped = out_.stopped || over;
  }

 private:
  // While the searcher still weighs configurations, its best plans so far are simulated and the expert's grid is weighed.
  void Propose() {
    SearchTask asked = task_;
    asked.effort.promising = [this](const std::vector<Proposal>& plans) {
      BeginGrid(plans.front().estimate);
      for (const Proposal& plan : plans) {
        if (!finalists_.has_room()) break;
        finalists_.Prepare(plan);
      }
    };
    out_.proposals = searcher_.propose(asked);
    if (!grid_.valid() && !out_.proposals.judge_all) {
      const std::vector<Proposal>& plans = out_.proposals.plans;
      BeginGrid(plans.empty() ? 0 : plans.front().estimate);
    }
  }

  void JudgeProposals(std::vector<Proposal> plans) {
    if (out_.proposals.judge_all) {
      finalists_.JudgeAll(std::move(plans));
    } else {
      finalists_.Judge(std::move(plans), Effort());
      LogPhase("judging");
      PrepareOthers();
      JudgeGrid();
      LogPhase("judging the expert's grid");
      JudgeMore();
      LogPhase("judging more");
    }
    Sort();
    JudgeBaselines();
    LogPhase("judging baselines");
    finalists_.TakeLate(Effort());
    LogPhase("judging those that were slow once they fitted");
    Sort();
    if (task_.effort.judged != 1) finalists_.JudgeAll(ExpertsLikeBest());
    Sort();
  }

  // Plans by Megatron's rules at the degrees of the best plan. If simulations are quick, also at the degrees of plans that are
  // nearly as fast: two schedules may take equally long with the best strategies and differ with Megatron's.
  std::vector<Proposal> ExpertsLikeBest() {
    constexpr double kAsFast = 1.05;
    constexpr size_t kMost = 4;
    std::vector<Proposal> plans;
    size_t found = 0;
    for (const JudgedPlan& at : out_.judged) {
      bool as_fast = at.fits && at.result.step_seconds <= kAsFast * finalists_.best_seconds();
      bool quick = 20 * SimulationSize(task_, at.plan) < kQuickWork;
      if (found == kMost || (found > 0 && !(as_fast && quick))) break;
      std::optional<Proposal> same = ExpertLike(task_, at.plan);
      if (!same) continue;
      ++found;
      if (IsJudged(same->plan) || IsThere(plans, same->plan)) continue;
      if (found > 1) same->from += fmt::format(": {}", at.from);
      plans.push_back(std::move(*same));
    }
    return plans;
  }

  // Plans that are judged in any case are simulated while the grid is compared with the best plan so far.
  void PrepareOthers() {
    if (task_.effort.Over() || CoreCount() < 2) return;
    Sort();
    for (Proposal& plan : Baselines().first) finalists_.Prepare(std::move(plan));
    if (task_.effort.judged == 1) return;
    for (Proposal& plan : ExpertsLikeBest()) finalists_.Prepare(std::move(plan));
    BeginImproving();
  }

  // Improvements of the best plan so far are computed while other plans are simulated. Improve judges them later.
  void BeginImproving() {
    if (out_.judged.empty() || !out_.judged.front().fits || !out_.judged.front().improve) return;
    heddle::Improve& improve = out_.judged.front().improve;
    auto found = std::async(std::launch::async, improve).share();
    improve = [found] { return found.get(); };
  }

  // Weighs the expert's grid in parallel to the searcher, against the estimate of the best plan so far.
  void BeginGrid(double estimate) {
    constexpr double kSlower = 1.05;  // than the estimate
    if (searcher_.name != "auto" || task_.effort.judged == 1) return;
    if (estimate == 0) {
      grid_ = std::async(std::launch::deferred, [this] {
        return WeighedGrid{{}, [this](const JudgedPlan* best) { return ExpertGrid(task_, best); }};
      });
      return;
    }
    grid_ = std::async(std::launch::async, [this, seconds = kSlower * estimate] {
      WeighedGrid grid = WeighExpertGrid(task_, seconds);
      for (const Proposal& plan : grid.likely) {
        if (!finalists_.has_room()) break;
        finalists_.Prepare(plan);
      }
      return grid;
    });
  }

  // Judges the grid's plans together with those further plans of the searcher whose estimates are close to the best.
  void JudgeGrid() {
    if (!grid_.valid()) return;
    task_.effort.Report("weighing plans by Megatron's rules");
    Sort();
    const JudgedPlan* best = out_.judged.empty() ? nullptr : &out_.judged.front();
    WeighedGrid grid = grid_.get();
    std::vector<Proposal> plans;
    if (grid.plans) plans = grid.plans(best);

    if (out_.feasible() && out_.proposals.more) {
      for (const Proposal& plan : plans) {
        if (!finalists_.has_room()) break;
        finalists_.Prepare(plan);
      }
      double reach = kReach * finalists_.best_seconds();
      for (const Proposal& plan : plans) reach = std::min(reach, kReach * plan.estimate);
      for (Proposal& plan : out_.proposals.more(reach)) plans.push_back(std::move(plan));
    }
    finalists_.Judge(std::move(plans), Effort());
  }

  // The best plan of each baseline is always judged, unless it is far slower than the best plan and takes long to simulate.
  // The others are judged if they may be faster.
  struct BaselinePlans {
    std::vector<Proposal> first, others;
  };
  BaselinePlans Baselines() {
    constexpr double kFar = 1.2;
    BaselinePlans out;
    if (searcher_.name == DataSearcher().name && !out_.judged.empty()) return out;
    for (std::vector<Proposal> ladder : ladders_.get()) {
      std::erase_if(ladder, [&](const Proposal& plan) {
        return IsJudged(plan.plan) || IsThere(out.first, plan.plan) ||
               IsThere(out.others, plan.plan);
      });
      if (ladder.empty()) continue;
      bool far = ladder[0].estimate > kFar * finalists_.best_seconds();
      bool quick = 4 * SimulationSize(task_, ladder[0].plan) < kQuickWork;
      for (Proposal& plan : ladder) {
        bool always = &plan == &ladder[0] && (!far || quick);
        (always ? out.first : out.others).push_back(std::move(plan));
      }
    }
    return out;
  }

  // The plans of the baselines, which every other searcher is compared with.
  std::vector<std::vector<Proposal>> ProposeLadders() const {
    std::vector<std::vector<Proposal>> ladders;
    for (const SearcherDef& other : {DataSearcher(), ExpertSearcher()}) {
      if (other.name != searcher_.name) ladders.push_back(other.propose(task_).plans);
    }
    return ladders;
  }

  void JudgeBaselines() {
    BaselinePlans plans = Baselines();
    finalists_.JudgeAll(std::move(plans.first));
    finalists_.Judge(std::move(plans.others), Effort());
    Sort();
  }

  // Simulated steps may be longer than their estimates; then plans with higher estimates may win, too.
  void JudgeMore() {
    constexpr int kRounds = 8;
    constexpr double kReachOfQuick = 1.1;
    constexpr double kFurther = 1.5;  // where nothing fits
    double reach = out_.proposals.additive;
    for (int round = 0; round < kRounds && out_.proposals.more && !task_.effort.Over(); ++round) {
      bool fits = finalists_.best_seconds() < kForbidden;
      if (fits) Sort();
      bool quick = fits && IsQuick(SimulationSize(task_, out_.judged.front().plan), Effort());
      reach =
          fits ? (quick ? kReachOfQuick : kReach) * finalists_.best_seconds() : kFurther * reach;
      std::vector<Proposal> plans = out_.proposals.more(reach);
      if (plans.empty() && fits) break;
      finalists_.Judge(std::move(plans), Effort());
    }
    out_.proposals.more = nullptr;
  }

  // Plans of one stage that would be the fastest without exposed communication, with backward split into B and W: gradients
  // of weights are computed while gradients of activations are communicated.
  void JudgeSplitBackward() {
    constexpr size_t kMost = 4;
    constexpr double kLeastExposed = 0.02;  // fraction of the step
    if (task_.fixed.schedule) return;
    std::vector<Proposal> plans;
    for (const JudgedPlan& at : out_.judged) {
      const std::vector<MeshAxis>& axes = at.plan.stages.front().mesh.axes;
      // A split backward keeps values between B and W, so plans that already recompute or offload are left out.
      bool one = at.plan.stages.size() == 1 && at.plan.offload == Offload::kNone && at.fits &&
                 !Recomputes(at.plan);
      bool only_data = axes.size() == 1 && BeginsWithData(at.plan.stages.front().mesh);
      bool split = one && !axes.empty() && !only_data;
      double waits = at.result.exposed_communication;
      bool near = (1 - waits) * at.result.step_seconds < finalists_.best_seconds();
      if (!split || waits < kLeastExposed || !near || plans.size() == kMost) continue;
      Proposal plan{at.plan, at.from + ", zb-h1"};
      plan.plan.schedule = "zb-h1";
      if (!IsJudged(plan.plan)) plans.push_back(std::move(plan));
    }
    finalists_.JudgeAll(std::move(plans));
    Sort();
  }

  void Improve() {
    constexpr int kRounds = 4;  // an improved plan may be improved again
    for (int i = 0; i < kRounds; ++i) {
      double before = finalists_.best_seconds();
      if (!ImproveOnce() || finalists_.best_seconds() >= before || task_.effort.Over()) break;
    }
    JudgeBucketSizes();
    finalists_.JudgeAll(FactoredPlans(task_, out_.judged));
    Sort();
  }

  void JudgeBucketSizes() {
    BucketSizes sizes(task_);
    while (!task_.effort.Over()) {
      std::vector<Proposal> plans = sizes.Next(out_.judged, finalists_.best_seconds());
      if (plans.empty()) break;
      finalists_.JudgeAll(std::move(plans));
      Sort();
    }
  }

  // Improves finalists that are nearly as fast as the best, each once; improvements of others gain too little to win. Returns
  // false if there is nothing to improve.
  bool ImproveOnce() {
    constexpr double kNear = 1.05;
    constexpr size_t kMost = 12;
    std::vector<heddle::Improve> near;
    for (JudgedPlan& at : out_.judged) {
      // A plan that does not fit may fit after its stages are solved again for the memory limit.
      bool is_near = at.simulated && at.result.step_seconds <= kNear * finalists_.best_seconds();
      if (at.improve && is_near && near.size() < kMost) near.push_back(at.improve);
      at.improve = nullptr;
    }
    std::vector<std::vector<Proposal>> found(near.size());
    InParallel(near.size(), [&](size_t i) {
      if (!task_.effort.Over()) found[i] = near[i]();
    });
    std::vector<Proposal> improved;
    for (std::vector<Proposal>& plans : found) {
      for (Proposal& plan : plans) {
        bool known = IsThere(improved, plan.plan) || IsJudged(plan.plan);
        if (!known) improved.push_back(std::move(plan));
      }
    }
    if (improved.empty()) return false;
    finalists_.Judge(std::move(improved), Effort());
    Sort();
    return true;
  }

  // Repeats until the best plan fits with all its micro-batches. A plan that does not is judged again with as many layers
  // recomputed as the whole step needs.
  void CheckBest() {
    constexpr int kMost = 8;
    Sort();
    for (int i = 0; i < kMost && out_.feasible() && !task_.effort.Over(); ++i) {
      std::vector<double> reserved = CheckWholeStep(task_, out_.judged.front());
      if (out_.feasible()) break;
      std::optional<Proposal> again;
      if (out_.judged.front().refit) again = out_.judged.front().refit(reserved);
      if (again) {
        again->refit = nullptr;  // fitting it to the short step would undo this
        finalists_.JudgeAll({std::move(*again)});
      }
      Sort();
    }
    LogPhase("checking the whole step");
  }

  void LogPhase(std::string_view phase) {
    double now = SteadySeconds(), processor = ProcessorSeconds();
    LogDebug("{}: {:.3f} s, {:.3f} s of processors", phase, now - phase_began_,
             processor - processor_began_);
    phase_began_ = now;
    processor_began_ = processor;
  }

  JudgingEffort Effort() const {
    if (task_.effort.judged > 0) return {task_.effort.judged, kForbidden};
    return {200, 12 * kQuickWork};
  }
  bool IsJudged(const Plan& plan) const {
    return std::any_of(out_.judged.begin(), out_.judged.end(),
                       [&](const JudgedPlan& other) { return other.plan == plan; });
  }
  void Sort() { std::stable_sort(out_.judged.begin(), out_.judged.end(), Better); }

  // Plans with estimates up to this multiple of the best step are judged.
  static constexpr double kReach = 1.03;

  const SearcherDef& searcher_;
  const SearchTask& task_;
  SearchResult& out_;
  Finalists finalists_;
  double phase_began_ = SteadySeconds(), processor_began_ = ProcessorSeconds();
  std::shared_future<std::vector<std::vector<Proposal>>> ladders_;
  std::future<WeighedGrid> grid_;
};

}  // namespace

void RunSearch(const SearcherDef& searcher, const SearchTask& task, SearchResult& out) {
  Judging(searcher, task, out).Run();
}

}  // namespace heddle
