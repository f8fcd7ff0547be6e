// The exact search. It weighs configurations in ascending order of their floors, each with the best strategies for its
// mesh, stages and recomputation, until none of the remaining ones can win. configuration_list.h has the order,
// plan_maker.h makes proposals of what was weighed.
#include <algorithm>
#include <future>

#include "base/parallel.h"
#include "search/explore/close_bound.h"
#include "search/explore/configuration_list.h"
#include "search/explore/exact_search.h"
#include "search/explore/plan_maker.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

// Estimates above this multiple of the best one are proposed only if simulated steps turn out to be slower than estimated.
constexpr double kNear = 1.05;
// Where messages occupy links, the estimate of another cut may be lower by this factor.
constexpr double kGainOfCuts = 1.2;
// While the first plans are simulated, configurations are weighed up to this multiple of the best estimate.
constexpr double kAhead = 1.065;

class Explorer : public std::enable_shared_from_this<Explorer> {
 public:
  Explorer(const SearchTask& task, ProblemSolver solver)
      : maker_(std::make_shared<PlanMaker>(task, std::move(solver))),
        task_(maker_->task()),
        estimator_(maker_->estimator()),
        list_(task_, estimator_) {}

  // With `weigh_ahead`, further configurations are weighed in the background for Proposals::more.
  Proposals Run(bool weigh_ahead) {
    for (bool wide : {false, true}) {
      wide_ = wide;
      list_.List(wide);
      Weigh([&] { return kNear * best_seconds_; });
      if (best_seconds_ < kForbidden) break;
    }
    announced_ = true;  // further weighing is for callers that know the best plan
    Proposals out;
    LowestFloors lowest = list_.FindLowestFloors(best_seconds_ < kForbidden);
    out.lower_bound = lowest.least();
    std::shared_future<double> closer =
        std::async(std::launch::async, [self = shared_from_this(), lowest = std::move(lowest)] {
          return CloserBound(lowest, self->estimator_, self->task_.effort);
        });
    out.close_bound = [closer](Proposals& proposals) {
      proposals.lower_bound = closer.get();
      proposals.additive_bound = std::min(proposals.additive, proposals.lower_bound);
    };
    out.plans = Near(kNear * best_seconds_);
    out.considered = list_.size();
    out.space = SpaceInWords(wide_);
    out.least_bytes = least_bytes_;
    if (!out.plans.empty()) {
      out.additive = out.plans.front().estimate;
      out.additive_bound = std::min(out.additive, out.lower_bound);
    }
    // Searches with another solver compare solvers, and are slow.
    if (maker_->has_own_solver()) return out;
    // Simulated steps are rarely shorter than their estimates, so more configurations will be needed: they are weighed while
    // the first plans are simulated.
    std::shared_future<void> ahead;
    if (weigh_ahead) {
      ahead = std::async(std::launch::async, [self = shared_from_this()] {
        self->Weigh([&] { return kAhead * self->best_seconds_; });
      });
    }
    out.more = [self = shared_from_this(), ahead](double seconds) {
      if (ahead.valid()) ahead.get();
      self->Weigh([&] { return self->by_links_ ? kGainOfCuts * seconds : seconds; });
      return self->Near(seconds);
    };
    return out;
  }

 private:
  // Proposals of configurations with estimates up to a limit that were not proposed before; the fastest first.
  std::vector<Proposal> Near(double seconds) {
    std::vector<size_t> coarse = NearIn(seconds);
    std::erase_if(coarse, [&](size_t i) { return !list_.at(i).coarse; });
    InParallel(coarse.size(), [&](size_t i) { EstimateOf(list_.at(coarse[i]), seconds); });
    RecutNear(seconds);
    std::vector<Proposal> plans;
    for (size_t i : NearIn(seconds)) {
      list_.at(i).proposed = true;
      plans.push_back(maker_->ProposeLater(list_.at(i)));
    }
    return plans;
  }

  // Indices of configurations with estimates up to a limit that were not proposed before; the fastest first.
  std::vector<size_t> NearIn(double seconds) const {
    std::vector<size_t> near;
    for (size_t i = 0; i < list_.size(); ++i) {
      const WeighedConfiguration& at = list_.at(i);
      if (at.fits && !at.proposed && at.seconds <= seconds) near.push_back(i);
    }
    std::stable_sort(near.begin(), near.end(),
                     [&](size_t a, size_t b) { return list_.at(a).seconds < list_.at(b).seconds; });
    return near;
  }

  // Where messages occupy links, stages of equal work are not optimal: estimates with a layer moved may be below the limit.
  void RecutNear(double seconds) {
    std::vector<size_t> near;
    for (size_t i = 0; i < list_.size(); ++i) {
      const WeighedConfiguration& at = list_.at(i);
      bool is_near = at.fits && !at.proposed && at.seconds <= kGainOfCuts * seconds;
      if (is_near && at.by_links && !at.recut) near.push_back(i);
    }
    InParallel(near.size(), [&](size_t i) {
      WeighedConfiguration& at = list_.at(near[i]);
      at.recut = true;
      if (!task_.effort.Over())
        at.seconds = std::min(at.seconds, maker_->BestCut(at.configuration).seconds);
    });
  }

  // Weighs configurations in ascending order of their floors until no remaining floor is below the limit. Batches grow while
  // the limit does not fall, because everything below it must be weighed in any case.
  template <typename Limit>
  void Weigh(const Limit& limit) {
    constexpr size_t kMany = 128, kMost = 1024, kFew = 4;  // on any number of cores
    size_t many = kMany;
    while (list_.LeastFloor() < limit()) {
      // With the default solver it continues shortly after the deadline until there is a first plan.
      bool over = task_.effort.Over();
      bool done = best_seconds_ < kForbidden || maker_->has_own_solver() || impatient_();
      if (over && done) return;
      double worst = limit();
      std::vector<size_t> batch = list_.NextBatch(over ? kFew : many, worst);
      InParallel(batch.size(), [&](size_t i) {
        if (batch.size() <= kFew || !task_.effort.Over()) Weigh(list_.at(batch[i]), worst);
      });
      for (size_t i : batch) Take(i);
      if (best_seconds_ < kForbidden && limit() == worst) Announce();
      many = limit() < worst ? kMany : std::min(2 * many, kMost);
      task_.effort.Report("weighing configurations");
    }
  }

  // Computes the floor with memory of a configuration and, if it is below the limit, the estimate.
  void Weigh(WeighedConfiguration& at, double worst) {
    if (!at.floored) {
      Estimator::Floors floors = estimator_.Floor(at.configuration);
      at.floor = floors.floor;
      at.floor_without_memory = floors.without_memory;
      at.floored = true;
    }
    if (at.floor >= worst) return;
    // Not a lower bound, but a configuration above the limit is not worth an estimate.
    if (at.estimate_without_memory == 0)
      at.estimate_without_memory = estimator_.EstimateWithoutMemory(at.configuration, worst);
    if (at.estimate_without_memory < kForbidden && at.estimate_without_memory >= worst) return;
    at.weighed = true;
    bool offloaded = !task_.fixed.offload && at.configuration.offload != Offload::kNone;
    if (offloaded && !estimator_.FreesMemory(at.configuration)) return;
    EstimateOf(at, worst);
  }

  void EstimateOf(WeighedConfiguration& at, double limit) {
    Estimate estimate = estimator_.Of(at.configuration, limit);
    at.fits = estimate.fits;
    at.plain = estimate.plain && estimate.memory_level == 0;
    at.by_links = estimate.by_links;
    at.coarse = estimate.coarse;
    at.seconds = estimate.seconds;
    at.bytes = estimate.bytes;
    at.bucket_bytes = estimate.bucket_bytes;
  }

  void Take(size_t i) {
    WeighedConfiguration& at = list_.at(i);
    if (!at.weighed) {
      list_.PutBack(i);
    } else if (at.fits) {
      best_seconds_ = std::min(best_seconds_, at.seconds);
      by_links_ = by_links_ || at.by_links;
    } else if (at.bytes > 0 && (least_bytes_ == 0 || at.bytes < least_bytes_)) {
      least_bytes_ = at.bytes;
    }
    list_.AddOffloaded(i);
  }

  // Announces promising plans: the best configuration is usually among those with the lowest floors. Estimates that may still
  // change are left out.
  void Announce() {
    if (announced_ || !task_.effort.promising) return;
    announced_ = true;
    std::vector<Proposal> plans;
    for (size_t i : NearIn(kNear * best_seconds_)) {
      const WeighedConfiguration& at = list_.at(i);
      if (!at.coarse && !at.by_links) plans.push_back(maker_->ProposeLater(at));
    }
    if (!plans.empty()) task_.effort.promising(plans);
  }

  std::shared_ptr<PlanMaker> maker_;
  const SearchTask& task_;
  Estimator& estimator_;
  ConfigurationList list_;
  bool wide_ = false;
  std::function<bool()> impatient_ = Impatience(task_);
  double best_seconds_ = kForbidden;  // of all estimates
  bool announced_ = false;            // SearchEffort::promising was called
  double least_bytes_ = 0;
  bool by_links_ = false;  // for some pipeline messages occupy links considerably
};

}  // namespace

Proposals ProposeExact(const SearchTask& task, ProblemSolver solver) {
  Proposals out = std::make_shared<Explorer>(task, std::move(solver))->Run(false);
  out.close_bound(out);
  out.close_bound = nullptr;
  return out;
}

Proposals ProposeExactWithBoundLater(const SearchTask& task) {
  return std::make_shared<Explorer>(task, nullptr)->Run(true);
}

}  // namespace heddle
