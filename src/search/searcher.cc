#include "search/searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "cluster/topology.h"
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

double Since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool IsThere(const std::vector<Proposal>& plans, const Plan& plan) {
  return std::any_of(plans.begin(), plans.end(),
                     [&](const Proposal& other) { return other.plan == plan; });
}

}  // namespace

std::span<const SearcherDef> AllSearchers() {
  static const std::vector<SearcherDef> all = {AutoSearcher(), DataSearcher(),  ExpertSearcher(),
                                               IlpSearcher(),  BruteSearcher(), MctsSearcher()};
  return all;
}

const SearcherDef* FindSearcher(std::string_view name) {
  for (const SearcherDef& def : AllSearchers()) {
    if (def.name == name) return &def;
  }
  return nullptr;
}

namespace {

// All that a searcher and the baselines propose, then what can be made better of the best.
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
    // What does not fit, or only with state on the host, may be faster with everything there.
    double least = 0;  // that of other plans is said
    if (!out_.feasible() || out_.judged.front().plan.offload != Offload::kNone) {
      finalists_.JudgeAll(SpilledPlans(task_, &least));
    }
    out_.proposals.considered = std::max(out_.proposals.considered, out_.judged.size());
    CheckBest();
    out_.stopped = out_.stopped || over;
  }

 private:
  // What the searcher takes to be the best is simulated, and compared with the expert's grid, while it looks at others.
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

  // Megatron's rules at the degrees that were found. Where simulations are quick also at the degrees of plans about as fast:
  // schedules that tie for one of the two need not do so for the other.
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

  // What is judged in any case can be simulated while the grid is gone through, by what is known of the best plan now.
  void PrepareOthers() {
    if (task_.effort.Over() || CoreCount() < 2) return;
    Sort();
    for (Proposal& plan : Baselines().first) finalists_.Prepare(std::move(plan));
    if (task_.effort.judged == 1) return;
    for (Proposal& plan : ExpertsLikeBest()) finalists_.Prepare(std::move(plan));
    BeginImproving();
  }

  // What makes the best plan so far better is found while others are simulated; Improve asks for it, and judges it.
  void BeginImproving() {
    if (out_.judged.empty() || !out_.judged.front().fits || !out_.judged.front().improve) return;
    heddle::Improve& improve = out_.judged.front().improve;
    auto found = std::async(std::launch::async, improve).share();
    improve = [found] { return found.get(); };
  }

  // The expert's grid is weighed beside the searcher and judging, against what the best plan will probably take.
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

  // Beside the searcher's further plans that are in reach of the grid's: where its own are far from the best, they are many.
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

  // The best of each ladder is judged in any case, unless it would take long for a plan that is far from the best; the
  // others where they may be faster.
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

  // Of the searchers that every other is compared with.
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

  // Steps may be longer than all estimates so far: then others are in reach.
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

  // Of plans of one stage that could be the fastest did nothing wait for traffic: with backward split, gradients of weights
  // are computed while gradients of activations are on their way.
  void JudgeSplitBackward() {
    constexpr size_t kMost = 4;
    constexpr double kWorth = 0.02;  // share of the step that waits
    if (task_.fixed.schedule) return;
    std::vector<Proposal> plans;
    for (const JudgedPlan& at : out_.judged) {
      const std::vector<MeshAxis>& axes = at.plan.stages.front().mesh.axes;
      // Where memory is short there is none for what waits from one half of backward to the other.
      bool one = at.plan.stages.size() == 1 && at.plan.offload == Offload::kNone && at.fits &&
                 !Recomputes(at.plan);
      bool split = one && (axes.size() > 1 ||
                           (axes.size() == 1 && !BeginsWithData(at.plan.stages.front().mesh)));
      double waits = at.result.exposed_communication;
      bool near = (1 - waits) * at.result.step_seconds < finalists_.best_seconds();
      if (!split || waits < kWorth || !near || plans.size() == kMost) continue;
      Proposal plan{at.plan, at.from + ", zb-h1"};
      plan.plan.schedule = "zb-h1";
      if (!IsJudged(plan.plan)) plans.push_back(std::move(plan));
    }
    finalists_.JudgeAll(std::move(plans));
    Sort();
  }

  void Improve() {
    constexpr int kRounds = 4;  // what is made better may be made better still
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

  // Finalists that are nearly as fast as the best: others are not made faster by so much. None is improved twice. False where
  // there is nothing to improve.
  bool ImproveOnce() {
    constexpr double kNear = 1.05;
    constexpr size_t kMost = 12;
    std::vector<heddle::Improve> near;
    for (JudgedPlan& at : out_.judged) {
      // One that does not fit may do so once it is solved for the memory there is.
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

  // Until the best one fits with all its micro-batches. One that does not is judged again with as many layers recomputed as
  // the whole step demands.
  void CheckBest() {
    constexpr int kMost = 8;
    Sort();
    for (int i = 0; i < kMost && out_.feasible() && !task_.effort.Over(); ++i) {
      std::vector<double> reserved = CheckWholeStep(task_, out_.judged.front());
      if (out_.feasible()) break;
      std::optional<Proposal> again;
      if (out_.judged.front().refit) again = out_.judged.front().refit(reserved);
      if (again) {
        again->refit = nullptr;  // a few micro-batches would undo it
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

  static constexpr double kReach = 1.03;  // estimates so far from the best step are judged

  const SearcherDef& searcher_;
  const SearchTask& task_;
  SearchResult& out_;
  Finalists finalists_;
  double phase_began_ = SteadySeconds(), processor_began_ = ProcessorSeconds();
  std::shared_future<std::vector<std::vector<Proposal>>> ladders_;
  std::future<WeighedGrid> grid_;
};

}  // namespace

namespace {

// Is it of the space that SpaceInWords says? What the exact search proposes is; of other plans those are that have no
// other axes and stages of whole units.
bool IsInSpace(const Model& model, const JudgedPlan& judged) {
  const Plan& plan = judged.plan;
  if (judged.factors || plan.offload == Offload::kAll) return false;
  if (judged.bound > 0) return true;
  std::vector<int> ends;
  for (const Stage& stage : plan.stages) {
    for (const MeshAxis& axis : stage.mesh.axes) {
      const ParallelAxis* known = FindAxis(axis.name);
      if (known == nullptr || !known->searched ||
          !(stage.mesh.axes == plan.stages.front().mesh.axes))
        return false;
    }
    ends.push_back(stage.last_block);
  }
  if (ends.size() == 1) return true;
  ModelUnits units = UnitsOf(model);
  if (plan.chunks > 1) return IsEvenCut(units, ends);
  return std::all_of(ends.begin(), ends.end(), [&](int end) {
    return std::find(units.begins.begin(), units.begins.end(), end) != units.begins.end();
  });
}

// The expert's grid has axes that the bound does not cover. Where such a plan is faster than the bound, there is none.
void CloseBound(SearchResult& out) {
  Proposals& proposals = out.proposals;
  if (proposals.close_bound) proposals.close_bound(proposals);
  proposals.close_bound = nullptr;
  bool refuted = out.feasible() && out.judged.front().result.step_seconds < proposals.lower_bound;
  if (refuted) proposals.lower_bound = 0;
}

}  // namespace

SearchResult Search(const SearcherDef& searcher, const SearchTask& task) {
  auto begin = std::chrono::steady_clock::now();
  SearchResult out;
  out.memory_limit = MemoryLimit(task);
  try {
    Judging(searcher, task, out).Run();
  } catch (const SimulationStopped&) {  // what was judged until then counts
    out.stopped = true;
  }
  std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  CloseBound(out);
  for (JudgedPlan& judged : out.judged) judged.in_space = IsInSpace(task.model, judged);
  out.seconds = Since(begin);
  return out;
}

}  // namespace heddle
