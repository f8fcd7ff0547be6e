// The exact search: configurations in the order of what they cannot be faster than, each with the best strategies for
// its mesh, stages and recomputation, until none that is left can win.
#include <algorithm>
#include <future>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "base/log.h"
#include "base/parallel.h"
#include "plan/precision.h"
#include "schedule/schedule.h"
#include "search/explore/assemble.h"
#include "search/explore/close_bound.h"
#include "search/explore/exact_search.h"
#include "search/explore/pipeline_step.h"
#include "search/explore/refine.h"
#include "search/judge/bucket_sizes.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

// Estimates further from the best are proposed only once simulated steps turn out to be that much slower.
constexpr double kNear = 1.05;
// Where messages occupy links, estimates of other cuts may be lower by so much.
constexpr double kReachOfCuts = 1.2;

struct WeighedConfiguration {
  Configuration configuration;
  double floor = 0;
  double floor_without_memory = 0;
  bool floored = false;         // `floor` is with memory
  double estimate_without_memory = 0;  // EstimateWithoutMemory, where it is known
  bool weighed = false;         // the estimate is known, or not worth making
  bool offload_listed = false;  // the same with the optimizer on the host is in the list
  // Of the estimate; its stages are found again where a plan is made.
  bool fits = false, plain = true, by_links = false, coarse = false, recut = false;
  double seconds = kForbidden, bytes = 0;
  int64_t bucket_bytes = 0;
  bool proposed = false;
};

bool AreAlikeInTime(const Configuration& a, Configuration b) {
  b.zero = a.zero;
  return a == b;
}

class Explorer : public std::enable_shared_from_this<Explorer> {
 public:
  // The problem must outlive what it proposes.
  Explorer(const SearchTask& task, ProblemSolver solver)
      : task_(task),
        model_(WithComputeType(task.model, task.precision)),
        prices_(model_, task.cluster, PriceOptionsOf(task, std::move(solver))),
        estimator_(task_, prices_) {}

  Proposals Run() {
    for (bool wide : {false, true}) {
      List(wide);
      Weigh([&] { return kNear * best_seconds_; });
      if (best_seconds_ < kForbidden) break;
    }
    announced_ = true;  // what comes later is weighed for those that know the best one
    Proposals out;
    LowestFloors lowest = FindLowestFloors();
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
    out.considered = all_.size();
    out.space = SpaceInWords(wide_);
    out.least_bytes = least_bytes_;
    if (!out.plans.empty()) {
      out.additive = out.plans.front().estimate;
      out.additive_bound = std::min(out.additive, out.lower_bound);
    }
    // Searches with a solver of their own compare solvers, and are slow.
    if (prices_.options().solver) return out;
    out.more = [self = shared_from_this()](double seconds) {
      self->Weigh([&] { return self->by_links_ ? kReachOfCuts * seconds : seconds; });
      return self->Near(seconds);
    };
    return out;
  }

 private:
  using Entry = std::pair<double, size_t>;
  using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  // Those whose estimates are below a limit, and were not proposed before; the fastest first.
  std::vector<Proposal> Near(double seconds) {
    std::vector<size_t> coarse = NearIn(seconds);
    std::erase_if(coarse, [&](size_t i) { return !all_[i].coarse; });
    InParallel(coarse.size(), [&](size_t i) { EstimateOf(all_[coarse[i]], seconds); });
    RecutNear(seconds);
    std::vector<Proposal> plans;
    for (size_t i : NearIn(seconds)) {
      all_[i].proposed = true;
      plans.push_back(ProposeLater(all_[i]));
    }
    return plans;
  }

  // Those with estimates below a limit that were not proposed before; the fastest first.
  std::vector<size_t> NearIn(double seconds) const {
    std::vector<size_t> near;
    for (size_t i = 0; i < all_.size(); ++i) {
      const WeighedConfiguration& at = all_[i];
      if (at.fits && !at.proposed && at.seconds <= seconds) near.push_back(i);
    }
    std::stable_sort(near.begin(), near.end(),
                     [&](size_t a, size_t b) { return all_[a].seconds < all_[b].seconds; });
    return near;
  }

  // Where messages occupy links, stages of equal work are not the best ones: estimates with a layer moved may be near.
  void RecutNear(double seconds) {
    std::vector<size_t> near;
    for (size_t i = 0; i < all_.size(); ++i) {
      const WeighedConfiguration& at = all_[i];
      bool is_near = at.fits && !at.proposed && at.seconds <= kReachOfCuts * seconds;
      if (is_near && at.by_links && !at.recut) near.push_back(i);
    }
    InParallel(near.size(), [&](size_t i) {
      WeighedConfiguration& at = all_[near[i]];
      at.recut = true;
      if (!task_.effort.Over())
        at.seconds = std::min(at.seconds, BestCut(at.configuration).seconds);
    });
  }

  Estimate BestCut(const Configuration& c) {
    Estimate best = estimator_.Of(c);
    if (!best.by_links) return best;
    std::vector<Estimate> moved = MovedLayers(c, best);
    return moved.empty() || moved.front().seconds >= best.seconds ? best : std::move(moved.front());
  }

  // Most proposals are never judged: their plans are made once they are.
  Proposal ProposeLater(const WeighedConfiguration& at) {
    Proposal out;
    out.from = NameOf(at.configuration, at.bucket_bytes);
    out.estimate = at.seconds;
    out.bytes = at.bytes;
    out.bound = at.floor;
    out.kind = KindOf(at.configuration, at.plain, at.by_links);
    out.spread = at.by_links ? kSpreadByLinks : 0;
    const Configuration& c = at.configuration;
    out.work = SimulationSize(task_, c.microbatches, c.pp, c.schedule);
    out.make = [self = shared_from_this(), c, floor = at.floor](Proposal& proposal) {
      Proposal made = self->Propose(c, self->BestCut(c), floor);
      proposal.plan = std::move(made.plan);
      proposal.refit = std::move(made.refit);
      proposal.improve = std::move(made.improve);
    };
    return out;
  }

  std::string NameOf(const Configuration& c, int64_t bucket_bytes) const {
    std::string name = ToString(c);
    if (bucket_bytes != task_.bucket_bytes) name += BucketsInWords(bucket_bytes);
    return name;
  }

  static std::vector<int64_t> KindOf(const Configuration& c, bool plain, bool by_links) {
    return {c.dp > 1 ? c.zero : 0,
            static_cast<int64_t>(c.offload),
            !plain,
            c.dp > 1,
            static_cast<int64_t>(c.axes.size()),
            c.pp > 1,
            c.chunks > 1,
            c.pp > 1 && FindSchedule(c.schedule)->splits_backward,
            c.pp > 1 && c.schedule == "gpipe",
            false,
            by_links};
  }

  Proposal Propose(const Configuration& c, const Estimate& estimate, double floor) {
    Proposal out;
    out.plan = Assemble(task_, hash_, prices_, estimator_, c, estimate);
    out.kind = KindOf(c, estimate.plain, estimate.by_links);
    out.spread = estimate.by_links ? kSpreadByLinks : 0;
    out.from = NameOf(c, estimate.bucket_bytes);
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
    if (estimate.by_links) plans = RecutPlans(c, estimate, floor);
    if (estimate.plain && estimate.memory_level == 0) return plans;
    Plan plan = Assemble(task_, hash_, prices_, estimator_, c, estimate);
    std::optional<Proposal> refined = RefinedPlan(c, estimate, floor, plan, 1);
    if (refined) plans.push_back(std::move(*refined));
    return plans;
  }

  // With a layer moved from one stage to another; those with the least estimates first.
  std::vector<Estimate> MovedLayers(const Configuration& c, const Estimate& estimate) {
    constexpr size_t kMostStages = 16;
    const size_t stages = estimate.stages.size();
    bool fixed = !task_.fixed.layers_per_stage.empty() || c.chunks > 1;
    if (fixed || stages < 2 || stages > kMostStages) return {};
    std::vector<int> ends;
    for (const StageEstimate& stage : estimate.stages) ends.push_back(stage.last_block);
    const std::vector<int64_t> layers = LayersPerStage(model_, ends);
    std::vector<Estimate> others;
    for (size_t from = 0; from < layers.size(); ++from) {
      for (size_t to = 0; to < layers.size() && layers[from] > 1; ++to) {
        if (to == from) continue;
        std::vector<int64_t> moved = layers;
        --moved[from];
        ++moved[to];
        Estimate other = estimator_.CutAt(c, estimate, StageEnds(model_, moved, stages));
        if (other.fits) others.push_back(std::move(other));
      }
    }
    std::stable_sort(others.begin(), others.end(),
                     [](const Estimate& a, const Estimate& b) { return a.seconds < b.seconds; });
    return others;
  }

  // Which of several cuts is best depends on how messages fall in with each other, which estimates do not say well.
  std::vector<Proposal> RecutPlans(const Configuration& c, const Estimate& estimate, double floor) {
    constexpr size_t kMost = 12;
    std::vector<Estimate> others = MovedLayers(c, estimate);
    std::vector<Proposal> plans;
    for (size_t i = 0; i < std::min(kMost, others.size()); ++i) {
      plans.push_back(Propose(c, others[i], floor));
      plans.back().from += ", a layer moved";
    }
    return plans;
  }

  // `share`: of the memory that the estimate allowed. A plan that reserves too much is solved again with less.
  std::optional<Proposal> RefinedPlan(const Configuration& c, const Estimate& estimate,
                                      double floor, const Plan& plan, double share) {
    std::optional<Refined> refined = Refine(task_, prices_, c, estimate, plan, share);
    if (!refined) return std::nullopt;
    Proposal out;
    out.plan = std::move(refined->plan);
    out.from = NameOf(c, estimate.bucket_bytes) + ", made to fit";
    out.estimate = refined->seconds;
    out.bytes = share * kMemoryOptimism * static_cast<double>(MemoryLimit(task_));
    out.bound = floor;
    out.refit = [self = shared_from_this(), c, estimate, floor, plan,
                 share](const std::vector<double>& reserved) -> std::optional<Proposal> {
      auto limit = static_cast<double>(MemoryLimit(self->task_));
      double most = *std::max_element(reserved.begin(), reserved.end());
      if (most <= limit) return std::nullopt;
      return self->RefinedPlan(c, estimate, floor, plan, share * (2 - most / limit));
    };
    return out;
  }

  void List(bool wide) {
    wide_ = wide;
    all_.clear();
    queue_ = {};
    task_.effort.Report("listing configurations");
    for (const Configuration& configuration : Enumerate(task_, wide)) {
      all_.push_back({configuration});
    }
    listed_ = all_.size();
    unbisected_ = {};
    // Those that differ in ZeRO alone stand together, and have the same.
    std::vector<size_t> firsts;
    std::vector<size_t> other_prices;  // the first with its axes and samples
    std::set<std::tuple<std::vector<int64_t>, int64_t, bool>> priced;
    for (size_t i = 0; i < all_.size(); ++i) {
      const Configuration& c = all_[i].configuration;
      if (i > 0 && AreAlikeInTime(all_[i - 1].configuration, c)) continue;
      firsts.push_back(i);
      if (priced.insert({c.axes, c.dp * c.microbatches, c.microbatches == 1}).second) {
        other_prices.push_back(i);
      }
    }
    InParallel(other_prices.size(), [&](size_t i) {
      if (!task_.effort.Over()) estimator_.Prepare(all_[other_prices[i]].configuration);
    });
    InParallel(firsts.size(), [&](size_t g) {
      if (task_.effort.Over()) return;
      double floor = estimator_.EvenTimeFloor(all_[firsts[g]].configuration);
      for (size_t i = firsts[g]; i < EndOfAlike(firsts[g]); ++i) {
        all_[i].floor = all_[i].floor_without_memory = floor;
      }
    });
    for (size_t first : firsts) {
      if (all_[first].floor < kForbidden) unbisected_.push({all_[first].floor, first});
    }
  }

  // After the last that differs from it in ZeRO alone.
  size_t EndOfAlike(size_t first) const {
    size_t i = first + 1;
    while (i < listed_ && AreAlikeInTime(all_[first].configuration, all_[i].configuration)) ++i;
    return i;
  }

  // The lowest floor in a queue.
  static double Least(const Queue& queue) { return queue.empty() ? kForbidden : queue.top().first; }

  // Bisects the floors of some configurations without memory, the lowest first, and puts these in the queue.
  void BisectSome(size_t most, double worst) {
    std::vector<size_t> batch;
    while (batch.size() < most && Least(unbisected_) < worst) {
      batch.push_back(unbisected_.top().second);
      unbisected_.pop();
    }
    std::vector<double> floors(batch.size());
    InParallel(batch.size(),
               [&](size_t b) { floors[b] = estimator_.TimeFloor(all_[batch[b]].configuration); });
    for (size_t b = 0; b < batch.size(); ++b) {
      for (size_t i = batch[b]; i < EndOfAlike(batch[b]); ++i) {
        all_[i].floor = all_[i].floor_without_memory = floors[b];
        if (floors[b] < kForbidden) queue_.push({floors[b], i});
      }
    }
  }

  // Those with the lowest floors, but for those that are not below `worst`.
  std::vector<size_t> NextBatch(size_t most, double worst) {
    std::vector<size_t> batch;
    while (batch.size() < most) {
      if (Least(unbisected_) < worst && Least(unbisected_) <= Least(queue_)) {
        BisectSome(most / 2, worst);
        continue;
      }
      if (Least(queue_) >= worst) break;
      batch.push_back(queue_.top().second);
      queue_.pop();
    }
    return batch;
  }

  // Configurations in the order of their floors, until none that is left is below the limit. The more of them at a time the
  // longer the limit has not fallen: all that are below it are weighed in any case.
  template <typename Limit>
  void Weigh(const Limit& limit) {
    constexpr size_t kMany = 128, kMost = 1024, kFew = 4;  // on any number of cores
    size_t many = kMany;
    while (std::min(Least(queue_), Least(unbisected_)) < limit()) {
      // Without a solver of its own it goes on to a first plan for a moment.
      bool over = task_.effort.Over();
      bool done = best_seconds_ < kForbidden || prices_.options().solver || impatient_();
      if (over && done) return;
      double worst = limit();
      std::vector<size_t> batch = NextBatch(over ? kFew : many, worst);
      InParallel(batch.size(), [&](size_t i) {
        if (batch.size() <= kFew || !task_.effort.Over()) Weigh(all_[batch[i]], worst);
      });
      for (size_t i : batch) Take(i);
      if (best_seconds_ < kForbidden && limit() == worst) Announce();
      many = limit() < worst ? kMany : std::min(2 * many, kMost);
      task_.effort.Report("weighing configurations");
    }
  }

  // Its floor with memory; where that is below the limit its estimate, too.
  void Weigh(WeighedConfiguration& at, double worst) {
    if (!at.floored) {
      Estimator::Floors floors = estimator_.Floor(at.configuration);
      at.floor = floors.floor;
      at.floor_without_memory = floors.without_memory;
      at.floored = true;
    }
    if (at.floor >= worst) return;
    // Not a bound, but none that is further away is worth the solver's time.
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
    WeighedConfiguration& at = all_[i];
    if (!at.weighed) {
      if (at.floor < kForbidden) queue_.push({std::max(at.floor, at.estimate_without_memory), i});
    } else if (at.fits) {
      best_seconds_ = std::min(best_seconds_, at.seconds);
      by_links_ = by_links_ || at.by_links;
    } else if (at.bytes > 0 && (least_bytes_ == 0 || at.bytes < least_bytes_)) {
      least_bytes_ = at.bytes;
    }
    AddOffloaded(i);
  }

  // Among the configurations with the lowest floors are usually the best of all. Estimates that may still change are not said.
  void Announce() {
    if (announced_ || !task_.effort.promising) return;
    announced_ = true;
    std::vector<Proposal> plans;
    for (size_t i : NearIn(kNear * best_seconds_)) {
      const WeighedConfiguration& at = all_[i];
      if (!at.coarse && !at.by_links) plans.push_back(ProposeLater(at));
    }
    if (!plans.empty()) task_.effort.promising(plans);
  }

  // Memory that is not short is not bought with time.
  void AddOffloaded(size_t i) {
    const WeighedConfiguration& at = all_[i];
    bool binds = at.floor > at.floor_without_memory * (1 + 1e-9);
    bool short_of_memory = at.weighed && (!at.fits || !at.plain);
    if (at.offload_listed || !(binds || short_of_memory)) return;
    std::optional<Configuration> offloaded = Offloaded(task_, at.configuration);
    if (!offloaded) return;
    all_[i].offload_listed = true;
    WeighedConfiguration other{*offloaded, at.floor_without_memory, at.floor_without_memory};
    queue_.push({other.floor, all_.size()});
    all_.push_back(std::move(other));
  }

  LowestFloors FindLowestFloors() const {
    constexpr size_t kLooks = 192, kLogged = 25;
    std::vector<size_t> order(all_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return all_[a].floor < all_[b].floor; });
    LowestFloors lowest;
    lowest.feasible = best_seconds_ < kForbidden;
    for (size_t i = 0; i < std::min(kLooks, order.size()); ++i) {
      const WeighedConfiguration& at = all_[order[i]];
      lowest.close.push_back({at.floor, at.configuration});
      if (i < kLogged) LogDebug("floor {:.6g} s: {}", at.floor, ToString(at.configuration));
    }
    if (order.size() > kLooks) lowest.others = all_[order[kLooks]].floor;
    return lowest;
  }

  const SearchTask task_;  // what is proposed may outlive the caller's
  Model model_;
  Prices prices_;
  Estimator estimator_;
  uint64_t hash_ = StableHash(task_.model.graph);
  bool wide_ = false;
  std::vector<WeighedConfiguration> all_;
  // Floors and indices of those that are not weighed yet; the lowest first.
  Queue queue_;
  // The same of those whose `floor` is that of devices equally busy, which is a lower bound of TimeFloor and cheap: most
  // are never low enough for more. Of those that differ in ZeRO alone the first.
  Queue unbisected_;
  size_t listed_ = 0;  // those of `all_` that were enumerated; the others are offloaded
  std::function<bool()> impatient_ = Impatience(task_);
  double best_seconds_ = kForbidden;  // of all estimates
  bool announced_ = false;            // SearchEffort::promising heard of some
  double least_bytes_ = 0;
  bool by_links_ = false;  // messages of some pipeline occupy links much
};

}  // namespace

Proposals ProposeExact(const SearchTask& task, ProblemSolver solver) {
  Proposals out = std::make_shared<Explorer>(task, std::move(solver))->Run();
  out.close_bound(out);
  out.close_bound = nullptr;
  return out;
}

Proposals ProposeExactWithBoundLater(const SearchTask& task) {
  return std::make_shared<Explorer>(task, nullptr)->Run();
}

}  // namespace heddle
