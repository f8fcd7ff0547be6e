#include "search/expert_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cluster/topology.h"
#include "search/expert_estimate.h"
#include "search/judge.h"
#include "search/parallel.h"

namespace heddle {
namespace {

std::string Named(const Degrees& d) {
  std::string text = fmt::format("expert at dp {}", d.dp);
  if (d.ep > 1) text += fmt::format(" (ep {})", d.ep);
  if (d.cp > 1) text += fmt::format(" x cp {}", d.cp);
  if (d.tp > 1) text += fmt::format(" x tp {}", d.tp);
  text += fmt::format(" x pp {}, {} micro-batch{}", d.pp, d.microbatches,
                      d.microbatches == 1 ? "" : "es");
  if (d.pp > 1) text += ", " + d.schedule;
  if (d.chunks > 1) text += fmt::format(" of {} chunks", d.chunks);
  text += fmt::format(", ZeRO {}", d.zero);
  if (d.offload == Offload::kOptimizer) text += ", optimizer on the host";
  return text;
}

// A point whose plan may be worth simulating.
struct GridPoint {
  Degrees degrees;
  double seconds = 0;  // estimated
  int tries = 0;
};

bool Recomputes(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
    return std::any_of(stage.recompute.begin(), stage.recompute.end(),
                       [](RecomputePolicy policy) { return policy != RecomputePolicy::kNone; });
  });
}

// Devices that share a sample, those of tp, and ep.
using MeshKey = std::array<int64_t, 3>;

// Plans whose estimates are wrong alike.
using ExpertKind = std::vector<int64_t>;
ExpertKind KindOf(const Degrees& d) {
  return {d.zero,      static_cast<int64_t>(d.offload), d.tp > 1, d.cp > 1, d.ep > 1, d.pp > 1,
          d.chunks > 1};
}

// What simulated plans were of their estimates.
class ExpertErrors {
 public:
  // What to expect before one was simulated, where the mesh is one that other searches have as well.
  void SetPrior(double time) { prior_ = time; }
  void Add(const Degrees& d, double time, double memory) {
    times_[KindOf(d)].push_back(time);
    all_.push_back(time);
    memory_[KindOf(d)] = memory;
  }
  double Time(const Degrees& d) const {
    auto found = times_.find(KindOf(d));
    const std::vector<double>& like = found == times_.end() ? all_ : found->second;
    if (like.empty()) return d.cp * d.ep == 1 ? prior_ : 1;
    double sum = 0;
    for (double ratio : like) sum += ratio;
    return sum / static_cast<double>(like.size());
  }
  // The least of those seen, and a little less: plans of one kind are not that far apart.
  double LeastTime(const Degrees& d) const {
    constexpr double kSpread = 0.01;
    auto found = times_.find(KindOf(d));
    if (found == times_.end()) return Time(d);
    return (1 - kSpread) * *std::min_element(found->second.begin(), found->second.end());
  }
  double Memory(const Degrees& d) const {
    auto found = memory_.find(KindOf(d));
    return found == memory_.end() ? 1 : found->second;
  }

 private:
  double prior_ = 1;
  std::map<ExpertKind, std::vector<double>> times_;
  std::vector<double> all_;
  std::map<ExpertKind, double> memory_;
};

class GridSearch {
 public:
  GridSearch(const SearchProblem& problem, std::string from, const JudgedPlan* best,
             const ExpertEffort& effort)
      : problem_(problem),
        from_(std::move(from)),
        effort_(effort),
        prices_(problem),
        estimator_(prices_),
        limit_(static_cast<double>(MemoryLimit(problem))) {
    if (best == nullptr || !best->fits) return;
    best_ = best->result.step_seconds;
    if (best->estimate > 0) errors_.SetPrior(std::clamp(best_ / best->estimate, 1.0, kMostPrior));
  }

  std::vector<Proposal> Run(std::vector<Degrees> points) {
    Weigh(std::move(points));
    while (!points_.empty() && simulated_ < effort_.most) {
      if (problem_.Over() && !out_.empty()) break;
      if (fitting_ && work_ >= effort_.work) break;
      std::vector<GridPoint> next = Next();
      if (next.empty()) break;
      JudgeThese(std::move(next));
    }
    std::stable_sort(out_.begin(), out_.end(), [](const Proposal& a, const Proposal& b) {
      const JudgedPlan &x = *a.judged, &y = *b.judged;
      if (x.fits != y.fits) return x.fits;
      return x.fits ? x.result.step_seconds < y.result.step_seconds : x.reserved() < y.reserved();
    });
    return std::move(out_);
  }

 private:
  static constexpr double kMostPrior = 1.1;

  // Estimates of the points that can be faster than the best; where nothing fits, with the optimizer on the host.
  void Weigh(std::vector<Degrees> points) {
    if (!FindBounds(points)) return;
    WeighGroups(points);
    bool offloads =
        !problem_.fixed.offload && CanOffload(problem_.cluster) && HostLimit(problem_) != 0;
    if (points_.empty() && offloads) {
      for (Degrees& at : points) at.offload = Offload::kOptimizer;
      WeighGroups(points);
    }
    Sort();
  }

  // Groups of points with the same prices, by what they split and the samples of a micro-batch. The smallest micro-batches
  // of all meshes are weighed first, then the others of the best meshes.
  void WeighGroups(const std::vector<Degrees>& points) {
    constexpr size_t kMeshes = 6;
    std::map<MeshKey, std::map<int64_t, std::vector<Degrees>>> groups;
    int64_t batch = std::max<int64_t>(1, BatchSize(problem_.model));
    for (const Degrees& d : points) {
      if (Bound(d) >= best_ || IsTooLarge(d)) continue;
      groups[{d.tp * d.cp, d.tp, d.ep}][batch / (d.dp * d.microbatches)].push_back(d);
    }
    std::vector<std::pair<double, MeshKey>> meshes;  // by their fastest estimate
    std::map<MeshKey, double> work;                  // device seconds of a sample
    for (auto first = groups.begin(); first != groups.end();) {
      auto last = first;
      std::vector<std::pair<MeshKey, const std::vector<Degrees>*>> round;  // meshes of one size
      for (; last != groups.end() && last->first[0] == first->first[0]; ++last) {
        if (!IsDominated(last->first, work)) {
          round.push_back({last->first, &last->second.begin()->second});
        }
      }
      std::vector<double> fastest = WeighRound(round, &work);
      for (size_t i = 0; i < round.size(); ++i) meshes.push_back({fastest[i], round[i].first});
      if (problem_.Over() && !points_.empty()) return;
      first = last;
    }
    std::stable_sort(meshes.begin(), meshes.end());
    for (size_t i = 0; i < std::min(kMeshes, meshes.size()); ++i) {
      if (meshes[i].first == kForbidden || problem_.Over()) break;
      std::vector<std::pair<MeshKey, const std::vector<Degrees>*>> round;
      for (const auto& [samples, group] : groups[meshes[i].second]) {
        round.push_back({meshes[i].second, &group});
      }
      round.erase(round.begin());
      WeighRound(round, nullptr);
    }
  }

  // The seconds that devices spend on a sample do not become less where more of them share it.
  bool IsDominated(const MeshKey& at, const std::map<MeshKey, double>& work) const {
    double batch = static_cast<double>(std::max<int64_t>(1, BatchSize(problem_.model)));
    double devices = static_cast<double>(DeviceCount(problem_.cluster));
    for (const auto& [other, seconds] : work) {
      bool less = other[2] == at[2] && other[1] <= at[1] && other[0] / other[1] <= at[0] / at[1];
      if (less && seconds * batch / devices >= Cut()) return true;
    }
    return false;
  }

  // Estimates are wrong by less than a tenth.
  double Cut() const { return std::min(best_, 1.1 * fastest_); }

  // The fastest estimates of some groups of points, which are added to the points.
  std::vector<double> WeighRound(
      const std::vector<std::pair<MeshKey, const std::vector<Degrees>*>>& round,
      std::map<MeshKey, double>* work) {
    std::vector<std::vector<GridPoint>> found(round.size());
    std::vector<double> of_sample(round.size()), fastest(round.size(), kForbidden);
    double cut = Cut();
    InParallel(round.size(),
               [&](size_t i) { found[i] = WeighGroup(*round[i].second, cut, &of_sample[i]); });
    for (size_t i = 0; i < round.size(); ++i) {
      if (work != nullptr) (*work)[round[i].first] = of_sample[i];
      for (GridPoint& point : found[i]) {
        fastest[i] = std::min(fastest[i], point.seconds);
        fastest_ = std::min(fastest_, point.seconds);
        points_.push_back(std::move(point));
      }
    }
    return fastest;
  }

  std::vector<GridPoint> WeighGroup(const std::vector<Degrees>& group, double cut,
                                    double* of_sample) {
    std::vector<std::pair<double, const Degrees*>> order;
    for (const Degrees& d : group) order.push_back({estimator_.LeastSeconds(d), &d});
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const Degrees& any = group.front();
    *of_sample = estimator_.DeviceSeconds(any);
    std::vector<GridPoint> found;
    for (const auto& [least, d] : order) {
      if (least >= cut) break;
      ExpertEstimate estimate = estimator_.Of(*d, estimator_.EndsOf(*d), limit_);
      if (!estimate.fits || estimate.seconds >= cut) continue;
      cut = std::min(cut, 1.1 * estimate.seconds);
      found.push_back({*d, estimate.seconds, 0});
    }
    return found;
  }

  // What the same work takes on one device at the best size of micro-batch, shared out evenly, with the schedule's bubble.
  double Bound(const Degrees& d) const {
    bool split = FindSchedule(d.schedule)->splits_backward;
    double rounds = static_cast<double>(d.microbatches * d.chunks);
    double bubble = split ? 0 : static_cast<double>(d.pp - 1) / rounds;
    return whole_ / static_cast<double>(d.dp * d.tp * d.cp * d.pp) * (1 + bubble);
  }

  const ExpertSums* Priced(int64_t ep, double samples) {
    ExpertKey key{.ep = ep, .samples = static_cast<int64_t>(samples), .microbatches = 1e9};
    return prices_.Of(key, RecomputePolicy::kNone);
  }
  static int Blocks(const ExpertSums& sums) { return static_cast<int>(sums.layers.size()) - 1; }

  // What bounds are made of; points with more experts than there are go. False where nothing is known.
  bool FindBounds(std::vector<Degrees>& points) {
    auto batch = static_cast<double>(std::max<int64_t>(1, BatchSize(problem_.model)));
    std::set<double> sizes;
    std::set<int64_t> spread;
    for (const Degrees& d : points) {
      sizes.insert(batch / static_cast<double>(d.dp * d.microbatches));
      spread.insert(d.ep);
    }
    double sample = kForbidden;
    for (double size : {*sizes.begin(), *sizes.rbegin()}) {
      const ExpertSums* one = Priced(1, size);
      if (one == nullptr) return false;
      sample = std::min(sample, one->Seconds(0, Blocks(*one)) / size);
      parameters_ = one->Parameters(0, Blocks(*one));
    }
    whole_ = sample * batch;
    // Experts can be spread over as many ranks as there are of them.
    int64_t most = 1;
    for (int64_t ep : spread) {
      const ExpertSums* one = ep > 1 ? Priced(ep, *sizes.begin()) : nullptr;
      if (one == nullptr) continue;
      most = ep;
      of_experts_ = static_cast<double>(ep) * one->expert.back();
    }
    std::erase_if(points, [&](const Degrees& d) { return d.ep > most; });
    return true;
  }

  // Whether weights and state alone are more than devices have, were stages alike and all of them split by tp.
  bool IsTooLarge(const Degrees& d) const {
    double kept = 1 - problem_.pruning.sparsity;
    auto held = [&](int64_t ranks) {
      HeldBytes each = HeldBytesOf(prices_.precision(), kept, ranks > 1 ? d.zero : 0,
                                   static_cast<double>(ranks), d.microbatches == 1, d.offload);
      return each.at_peak(d.microbatches > 1);
    };
    double bytes = (parameters_ - of_experts_) * held(d.dp * d.cp) +
                   of_experts_ / static_cast<double>(d.ep) * held(d.dp / d.ep * d.cp);
    return bytes / static_cast<double>(d.tp * d.pp) > limit_;
  }

  double Expected(const GridPoint& point) const {
    return point.seconds * errors_.Time(point.degrees);
  }
  void Sort() {
    std::stable_sort(points_.begin(), points_.end(), [&](const GridPoint& a, const GridPoint& b) {
      return Expected(a) < Expected(b);
    });
  }

  // The points of which most is expected, as many as are simulated at a time.
  std::vector<GridPoint> Next() {
    constexpr size_t kTogether = 2;
    std::vector<GridPoint> next;
    Sort();
    while (!points_.empty() && next.size() < kTogether && simulated_ + next.size() < effort_.most) {
      double least = points_.front().seconds * errors_.LeastTime(points_.front().degrees);
      if (least >= best_ && !(out_.empty() && next.empty() && !from_.empty())) break;
      next.push_back(std::move(points_.front()));
      points_.erase(points_.begin());
    }
    return next;
  }

  void JudgeThese(std::vector<GridPoint> next) {
    std::vector<std::optional<Proposal>> plans(next.size());
    InParallel(next.size(), [&](size_t i) {
      const Degrees& d = next[i].degrees;
      plans[i] =
          estimator_.Propose(d, from_.empty() ? Named(d) : from_, limit_ / errors_.Memory(d));
      if (!plans[i]) return;
      if (plans[i]->estimate * errors_.LeastTime(d) >= best_ && !out_.empty()) {
        plans[i].reset();
        return;
      }
      try {
        plans[i]->judged = std::make_shared<JudgedPlan>(Judge(problem_, *plans[i]));
      } catch (const SimulationStopped&) {
        plans[i].reset();
      }
    });
    for (size_t i = 0; i < next.size(); ++i) {
      if (plans[i]) Take(std::move(next[i]), std::move(*plans[i]));
    }
  }

  void Take(GridPoint point, Proposal plan) {
    const JudgedPlan& judged = *plan.judged;
    ++simulated_;
    work_ += SimulationSize(problem_, judged.plan);
    double needed = static_cast<double>(judged.reserved());
    constexpr double kMargin = 1.005;
    double time = judged.simulated ? judged.result.step_seconds / plan.estimate : 1;
    double memory = kMargin * needed / plan.bytes;
    if (judged.simulated) errors_.Add(point.degrees, time, memory);
    if (judged.fits) {
      fitting_ = true;
      best_ = std::min(best_, judged.result.step_seconds);
    }
    Again(std::move(point), judged);
    out_.push_back(std::move(plan));
  }

  // What did not fit recomputes more; what had room to spare recomputes less.
  void Again(GridPoint point, const JudgedPlan& judged) {
    constexpr double kSpare = 0.97;
    constexpr int kTries = 3;
    double memory = errors_.Memory(point.degrees);
    bool less = judged.fits && memory < kSpare && point.tries == 0 && Recomputes(judged.plan);
    if (!judged.simulated || (judged.fits && !less) || point.tries >= kTries) return;
    ++point.tries;
    ExpertEstimate again =
        estimator_.Of(point.degrees, estimator_.EndsOf(point.degrees), limit_ / memory);
    point.seconds = again.seconds;
    if (again.fits) points_.push_back(std::move(point));
  }

  const SearchProblem& problem_;
  std::string from_;
  ExpertEffort effort_;
  ExpertPrices prices_;
  ExpertEstimator estimator_;
  double limit_;
  double best_ = kForbidden;                // seconds of the best plan that fits
  double fastest_ = kForbidden;             // estimate of a plan that fits
  double whole_ = 0;                        // seconds of the batch on one device
  double parameters_ = 0, of_experts_ = 0;  // elements; of these, those that ep spreads
  std::vector<GridPoint> points_;
  ExpertErrors errors_;
  size_t simulated_ = 0;
  bool fitting_ = false;  // one of them
  double work_ = 0;
  std::vector<Proposal> out_;
};

}  // namespace

std::vector<Proposal> BestExperts(const SearchProblem& problem, std::vector<Degrees> points,
                                  const std::string& from, const JudgedPlan* best,
                                  const ExpertEffort& effort) {
  if (points.empty()) return {};
  return GridSearch(problem, from, best, effort).Run(std::move(points));
}

std::vector<Proposal> ExpertGrid(const SearchProblem& problem, const JudgedPlan* best) {
  if (problem.cluster.device_types.size() > 1 || problem.Over()) return {};
  if (problem.progress) problem.progress("weighing plans by Megatron's rules");
  return BestExperts(problem, ExpertDegrees(problem, {}), "", best, {12, 8 * kQuickWork});
}

}  // namespace heddle
