// The exact search: configurations in the order of what they cannot be faster than, each with the best strategies for
// its mesh, stages and recomputation, until none that is left can win.
#include <algorithm>

#include "plan/precision.h"
#include "schedule/schedule.h"
#include "search/assemble.h"
#include "search/judge.h"
#include "search/parallel.h"
#include "search/refine.h"
#include "search/searchers.h"

namespace heddle {
namespace {

// Estimates further from the best are not judged: they are wrong by less than that.
constexpr double kNear = 1.12;

struct WeighedConfiguration {
  Configuration configuration;
  double floor = 0;
  double roomy = 0;  // the floor were memory not to count
  Estimate estimate = {};
};

class Explorer : public std::enable_shared_from_this<Explorer> {
 public:
  // The problem must outlive what it proposes.
  Explorer(const SearchProblem& problem, ProblemSolver solver)
      : problem_(problem),
        model_(WithComputeType(problem.model, problem.precision)),
        prices_(model_, problem.cluster,
                {PrecisionOf(problem), problem.sim, problem.whole, std::move(solver)}),
        estimator_(problem, prices_) {}

  Proposals Run() {
    for (bool wide : {false, true}) {
      Explore(wide);
      Propose();
      if (!proposed_.empty()) break;
    }
    Proposals out;
    out.considered = considered_;
    out.space = SpaceInWords(wide_);
    out.least_bytes = least_bytes_;
    out.lower_bound = bound_;
    if (!proposed_.empty()) {
      out.additive = proposed_.front().estimate;
      out.additive_bound = std::min(out.additive, bound_);
    }
    out.plans = std::move(proposed_);
    return out;
  }

 private:
  void Propose() {
    std::stable_sort(best_.begin(), best_.end(),
                     [](const WeighedConfiguration& a, const WeighedConfiguration& b) {
                       return a.estimate.seconds < b.estimate.seconds;
                     });
    for (const WeighedConfiguration& at : best_) {
      if (at.estimate.seconds > kNear * best_seconds_) break;
      proposed_.push_back(Propose(at.configuration, at.estimate, at.floor));
    }
  }

  Proposal Propose(const Configuration& c, const Estimate& estimate, double floor) {
    Proposal out;
    out.make = [self = shared_from_this(), c, estimate] {
      return Assemble(self->problem_, self->hash_, self->prices_, self->estimator_, c, estimate);
    };
    out.kind = {c.dp > 1 ? c.zero : 0,
                static_cast<int64_t>(c.offload),
                !estimate.plain,
                static_cast<int64_t>(c.axes.size()) + (c.dp > 1 ? 1 : 0),
                c.pp > 1,
                c.chunks > 1,
                c.pp > 1 && FindSchedule(c.schedule)->splits_backward};
    out.work = SimulationSize(problem_, c.microbatches, c.pp, c.schedule);
    out.from = ToString(c);
    out.estimate = estimate.seconds;
    out.bytes = estimate.bytes;
    out.bound = floor;
    out.refit = [self = shared_from_this(), c, estimate,
                 floor](const std::vector<double>& reserved) -> std::optional<Proposal> {
      std::optional<Estimate> other = self->estimator_.Refitted(c, estimate, reserved);
      if (!other || !other->fits) return std::nullopt;
      return self->Propose(c, *other, floor);
    };
    // Searches with a solver of their own compare solvers.
    if (prices_.options().solver) return out;
    out.improve = [self = shared_from_this(), c, estimate, floor] {
      return self->RefinedPlans(c, estimate, floor);
    };
    return out;
  }

  // Its stages solved again, exactly, for the memory they may use.
  std::vector<Proposal> RefinedPlans(const Configuration& c, const Estimate& estimate,
                                     double floor) {
    std::vector<Proposal> plans;
    if (estimate.plain && estimate.thrift == 0) return plans;
    Plan plan = Assemble(problem_, hash_, prices_, estimator_, c, estimate);
    // Estimates of memory are low by some hundredths at times.
    for (double share : {1.0, 0.93}) {
      std::optional<Refined> refined = Refine(problem_, prices_, c, estimate, plan, share);
      if (!refined) continue;
      Proposal out;
      out.plan = std::move(refined->plan);
      out.from = ToString(c) + ", made to fit";
      out.estimate = refined->seconds;
      out.bytes = estimate.bytes;
      out.bound = floor;
      plans.push_back(std::move(out));
    }
    return plans;
  }

  void Explore(bool wide) {
    wide_ = wide;
    best_.clear();
    best_seconds_ = kForbidden;
    if (problem_.progress) problem_.progress("listing configurations");
    std::vector<WeighedConfiguration> all;
    for (const Configuration& configuration : Enumerate(problem_, wide)) {
      all.push_back({configuration});
    }
    considered_ += all.size();
    InParallel(all.size(), [&](size_t i) {
      if (!problem_.Over()) all[i].floor = estimator_.TimeFloor(all[i].configuration);
    });
    std::stable_sort(all.begin(), all.end(),
                     [](const WeighedConfiguration& a, const WeighedConfiguration& b) {
                       return a.floor < b.floor;
                     });
    std::vector<WeighedConfiguration> others;  // offloaded
    bound_ = kForbidden;
    constexpr size_t kBatch = 16;
    for (size_t first = 0; first < all.size(); first += kBatch) {
      size_t last = std::min(all.size(), first + kBatch);
      double worst = kNear * best_seconds_;
      // Without a solver of its own it is quick enough to go on to a first plan.
      bool over = problem_.Over() && (!best_.empty() || prices_.options().solver);
      if (all[first].floor >= worst || over) {
        bound_ = std::min(bound_, all[first].floor);
        break;
      }
      std::vector<std::optional<WeighedConfiguration>> offloaded(last - first);
      InParallel(last - first, [&](size_t i) {
        Weigh(all[first + i], worst);
        offloaded[i] = WeighOffloaded(all[first + i], worst);
      });
      for (size_t i = first; i < last; ++i) {
        Take(all[i]);
        if (!offloaded[i - first]) continue;
        Take(*offloaded[i - first]);
        others.push_back(std::move(*offloaded[i - first]));
      }
      if (problem_.progress) problem_.progress("weighing configurations");
    }
    considered_ += others.size();
    std::move(others.begin(), others.end(), std::back_inserter(all));
    CloseBound(all);
    if (bound_ == kForbidden) bound_ = 0;
  }

  void Weigh(WeighedConfiguration& at, double worst) {
    if (at.floor == kForbidden) {
      at.roomy = kForbidden;
      return;
    }
    SetFloor(at);
    if (at.floor < worst) at.estimate = estimator_.Of(at.configuration);
  }

  void SetFloor(WeighedConfiguration& at) {
    Estimator::Floors floors = estimator_.Floor(at.configuration);
    at.floor = floors.floor;
    at.roomy = floors.roomy;
  }

  // Memory that is not short is not bought with time; but who says so is the estimate, and the bound must hold all the
  // same.
  std::optional<WeighedConfiguration> WeighOffloaded(const WeighedConfiguration& at, double worst) {
    std::optional<Configuration> offloaded = Offloaded(problem_, at.configuration);
    if (!offloaded) return std::nullopt;
    WeighedConfiguration other{*offloaded, at.roomy, at.roomy};
    bool binds = at.floor > at.roomy * (1 + 1e-9);
    bool short_of_memory = !at.estimate.fits || !at.estimate.plain || at.estimate.thrift > 0;
    if (at.roomy >= worst || !(binds || short_of_memory)) return other;
    SetFloor(other);
    bool promises = other.floor < worst && short_of_memory && estimator_.Relieves(*offloaded);
    if (promises) other.estimate = estimator_.Of(*offloaded);
    return other;
  }

  // The lowest floors decide the bound: they are looked at closely, the lowest first.
  void CloseBound(std::vector<WeighedConfiguration>& all) {
    constexpr int kLooks = 48;
    if (best_.empty()) return;
    std::stable_sort(all.begin(), all.end(),
                     [](const WeighedConfiguration& a, const WeighedConfiguration& b) {
                       return a.floor < b.floor;
                     });
    size_t looked = 0;
    double least = kForbidden;  // of those looked at
    while (looked < all.size() && looked < kLooks && !problem_.Over()) {
      if (all[looked].floor >= std::min(least, best_seconds_)) break;
      double close = estimator_.CloseFloor(all[looked].configuration);
      all[looked].floor = std::max(all[looked].floor, close);
      least = std::min(least, all[looked++].floor);
    }
    bound_ = std::min(least, looked < all.size() ? all[looked].floor : kForbidden);
  }

  void Take(const WeighedConfiguration& weighed) {
    const Estimate& estimate = weighed.estimate;
    bound_ = std::min(bound_, weighed.floor);
    if (!estimate.fits) {
      if (estimate.bytes > 0 && (least_bytes_ == 0 || estimate.bytes < least_bytes_)) {
        least_bytes_ = estimate.bytes;
      }
      return;
    }
    if (estimate.seconds > kNear * best_seconds_) return;
    best_seconds_ = std::min(best_seconds_, estimate.seconds);
    best_.push_back(weighed);
  }

  const SearchProblem& problem_;
  Model model_;
  Prices prices_;
  Estimator estimator_;
  uint64_t hash_ = StableHash(problem_.model.graph);
  bool wide_ = false;
  std::vector<WeighedConfiguration> best_;  // near the best estimate
  double best_seconds_ = kForbidden;
  std::vector<Proposal> proposed_;
  size_t considered_ = 0;
  double least_bytes_ = 0, bound_ = 0;
};

}  // namespace

Proposals ProposeExact(const SearchProblem& problem, ProblemSolver solver) {
  return std::make_shared<Explorer>(problem, std::move(solver))->Run();
}

SearcherDef AutoSearcher() {
  return {
      "auto",
      "the exact search over meshes, stages, micro-batches and strategies; with mcts where devices "
      "or links differ",
      ProposeAnywhere};
}

}  // namespace heddle
