#include "search/expert/expert_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>

#include "base/log.h"
#include "base/parallel.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "search/expert/expert_estimate.h"
#include "search/explore/pipeline_step.h"
#include "search/judge/finalists.h"

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
  if (d.offload != Offload::kNone) text += fmt::format(", {}", DefOf(d.offload).in_words);
  return text;
}

// A point whose plan may be worth simulating.
struct GridPoint {
  Degrees degrees;
  double seconds = 0;  // estimated
  double spread = 0;   // as of a proposal

  // What its step may be.
  double least() const { return (1 - spread) * seconds; }
};

// Devices that share a sample, those of tp, and ep.
using MeshKey = std::array<int64_t, 3>;

class GridSearch {
 public:
  GridSearch(const SearchTask& task, std::vector<Degrees> points)
      : task_(task),
        grid_(std::move(points)),
        estimator_(std::make_shared<ExpertEstimator>(task_)),
        limit_(static_cast<double>(MemoryLimit(task))),
        batch_(static_cast<double>(std::max<int64_t>(1, BatchSize(task.model)))),
        devices_(static_cast<double>(DeviceCount(task.cluster))) {}

  // Estimates of the points whose plans can be faster than a plan of so many seconds.
  void Weigh(double best) {
    best_ = best;
    known_ = FindBounds();
    if (known_) WeighGroups();
  }

  // Plans of the points that were weighed; `best` is not slower than what Weigh was told.
  std::vector<Proposal> Plans(const JudgedPlan* best, const std::string& from, size_t most) {
    Compare(best);
    if (known_) WeighOffloaded();
    std::stable_sort(points_.begin(), points_.end(),
                     [](const GridPoint& a, const GridPoint& b) { return a.seconds < b.seconds; });
    std::vector<Degrees> chosen = Chosen(most, !from.empty());
    LogDebug("the expert's grid: {} points, {} weighed, the fastest {:.6g} s, {} chosen",
             grid_.size(), points_.size(), fastest_, chosen.size());
    if (chosen.empty() && best_ == kForbidden) chosen = Smallest();
    std::vector<std::optional<Proposal>> made(chosen.size());
    InParallel(chosen.size(), [&](size_t i) {
      // Of a ladder only the first has its name alone.
      std::string name = from.empty() ? Named(chosen[i]) : from;
      if (!from.empty() && i > 0) name += fmt::format(", ZeRO {}", chosen[i].zero);
      made[i] = ProposeExpert(estimator_, chosen[i], name);
    });
    std::vector<Proposal> plans;
    for (std::optional<Proposal>& plan : made) {
      if (!plan) continue;
      plan->kind = KindOf(plan->plan);
      plan->kind.back() = plan->spread > 0;
      // Of another estimator than those of the exact search, and of other axes.
      for (AxisRole role : {AxisRole::kContext, AxisRole::kExpert, AxisRole::kTensor}) {
        plan->kind.push_back(AxisWithRole(plan->plan.stages.front().mesh, role) >= 0);
      }
      plans.push_back(std::move(*plan));
    }
    return plans;
  }

 private:
  void Compare(const JudgedPlan* best) {
    constexpr double kMostError = 1.1;
    if (best == nullptr) return;
    const Plan& plan = best->plan;
    bool recomputes = plan.offload == Offload::kOptimizer || Recomputes(plan);
    if (!best->fits || recomputes) is_memory_short_ = true;
    if (!best->fits) return;
    best_ = best->result.step_seconds;
    if (best->estimate > 0) error_ = std::clamp(best_ / best->estimate, 1.0, kMostError);
  }

  // The fastest, but not many that differ in schedule, chunks and ZeRO alone.
  std::vector<Degrees> Chosen(size_t most, bool ladder) const {
    constexpr size_t kAlike = 3;
    std::map<std::vector<int64_t>, size_t> alike;
    std::vector<Degrees> chosen;
    for (const GridPoint& point : points_) {
      const Degrees& d = point.degrees;
      // Where the mesh is one that the exact search has as well, its estimates are wrong as those are.
      double expected = d.cp * d.ep == 1 ? error_ * point.least() : point.least() / kTooHigh;
      bool far = best_ == kForbidden && point.seconds >= kNear * fastest_;
      if (chosen.size() == most || far) break;
      if (expected >= best_) continue;
      // Where latencies count, plans that split state over data ranks are far slower than estimated, and others are not.
      std::vector<int64_t> key = {d.dp, d.cp, d.tp, d.ep, d.pp, d.microbatches, d.zero > 0};
      // Of a ladder the best of each ZeRO level: not all of them allow the same improvements.
      if (ladder) key = {d.zero};
      if (++alike[key] > (ladder ? 1 : kAlike)) continue;
      if (!ladder && SameProgram(d, chosen)) continue;
      chosen.push_back(d);
    }
    return chosen;
  }

  // ZeRO 1 and 2 differ in what passes between micro-batches.
  static bool SameProgram(const Degrees& d, const std::vector<Degrees>& chosen) {
    if (d.microbatches > 1 || d.zero == 0 || d.zero == 3) return false;
    Degrees other = d;
    other.zero = 3 - d.zero;
    return std::find(chosen.begin(), chosen.end(), other) != chosen.end();
  }

  // The point that needs least memory.
  std::vector<Degrees> Smallest() {
    const Degrees* smallest = nullptr;
    double least = kForbidden;
    for (const Degrees& d : grid_) {
      if (task_.effort.Over() && smallest != nullptr) break;
      ExpertEstimate at = estimator_->Of(d, estimator_->EndsOf(d));
      if (!at.known || at.bytes >= least) continue;
      least = at.bytes;
      smallest = &d;
    }
    return smallest == nullptr ? std::vector<Degrees>{} : std::vector<Degrees>{*smallest};
  }

  // With the optimizer on the host, where memory is short.
  void WeighOffloaded() {
    bool offloads = !task_.fixed.offload && CanOffload(task_.cluster) && HostLimit(task_) != 0;
    if (!offloads || !(points_.empty() || IsShortOfMemory())) return;
    for (Degrees& at : grid_) at.offload = Offload::kOptimizer;
    WeighGroups();
  }

  // Is there a plan or a point that does not fit or has to recompute, and would the optimizer's state, shared out over all
  // devices, leave a share of their memory worth speaking of?
  bool IsShortOfMemory() const {
    constexpr double kWorth = 0.05;
    HeldBytes each = HeldBytesOf(estimator_->prices().precision(), 1 - task_.pruning.sparsity, 1,
                                 devices_, true, Offload::kNone);
    return is_memory_short_ && parameters_ * each.state >= kWorth * limit_;
  }

  // Groups of points with the same prices, by what they split and the samples of a micro-batch. The smallest and the largest
  // micro-batches of all meshes are weighed first, then the others of the best meshes.
  void WeighGroups() {
    constexpr size_t kMeshes = 6, kFewGroups = 128;
    std::map<MeshKey, std::map<int64_t, std::vector<Degrees>>> groups;
    int64_t batch = std::max<int64_t>(1, BatchSize(task_.model));
    for (const Degrees& d : grid_) {
      if (Bound(d) >= kTooHigh * best_ || IsTooLarge(d)) continue;
      groups[{d.tp * d.cp, d.tp, d.ep}][batch / (d.dp * d.microbatches)].push_back(d);
    }
    std::map<MeshKey, double> fastest_of;  // estimates, by mesh
    std::map<MeshKey, double> work;        // device seconds of a sample
    for (auto first = groups.begin(); first != groups.end();) {
      auto last = first;
      std::vector<std::pair<MeshKey, const std::vector<Degrees>*>> round;  // meshes of one size
      for (; last != groups.end() && last->first[0] == first->first[0]; ++last) {
        if (IsDominated(last->first, work)) continue;
        round.push_back({last->first, &last->second.begin()->second});
        if (last->second.size() > 1) round.push_back({last->first, &last->second.rbegin()->second});
      }
      std::vector<double> fastest = WeighRound(round, &work);
      for (size_t i = 0; i < round.size(); ++i) {
        double& of_mesh = fastest_of.try_emplace(round[i].first, kForbidden).first->second;
        of_mesh = std::min(of_mesh, fastest[i]);
      }
      if (task_.effort.Over() && !points_.empty()) return;
      first = last;
    }
    size_t all = 0;
    for (const auto& [mesh, by_samples] : groups) all += by_samples.size();
    // The smallest and the largest micro-batches of a mesh may both be too slow, or not fit, and those between be fast: such
    // meshes stand apart, in the order of what their devices spend on all samples.
    std::vector<std::pair<double, MeshKey>> known, unknown;
    for (const auto& [mesh, fastest] : fastest_of) {
      double least = work[mesh] * batch_ / devices_;
      if (fastest < kForbidden) known.push_back({fastest, mesh});
      if (fastest == kForbidden && least < Cut()) unknown.push_back({least, mesh});
    }
    for (auto* meshes : {&known, &unknown}) {
      std::stable_sort(meshes->begin(), meshes->end());
      // All of them where there are few.
      if (all > kFewGroups) meshes->resize(std::min(kMeshes, meshes->size()));
      for (const auto& [seconds, mesh] : *meshes) {
        if (task_.effort.Over()) return;
        WeighInner(mesh, groups[mesh]);
      }
    }
  }

  // All micro-batches but the smallest and the largest.
  void WeighInner(const MeshKey& mesh, const std::map<int64_t, std::vector<Degrees>>& by_samples) {
    std::vector<std::pair<MeshKey, const std::vector<Degrees>*>> round;
    for (const auto& [samples, group] : by_samples) round.push_back({mesh, &group});
    if (round.size() <= 2) return;
    round.erase(round.begin());
    round.pop_back();
    WeighRound(round, nullptr);
  }

  // The seconds that devices spend on a sample do not become less where more of them share it.
  bool IsDominated(const MeshKey& at, const std::map<MeshKey, double>& work) const {
    for (const auto& [other, seconds] : work) {
      bool less = other[2] == at[2] && other[1] <= at[1] && other[0] / other[1] <= at[0] / at[1];
      if (less && seconds * batch_ / devices_ >= Cut()) return true;
    }
    return false;
  }

  double Cut() const { return best_ < kForbidden ? kTooHigh * best_ : kNear * fastest_; }

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
    for (const Degrees& d : group) order.push_back({estimator_->LeastSeconds(d), &d});
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const Degrees& any = group.front();
    *of_sample = estimator_->DeviceSeconds(any);
    std::vector<GridPoint> found;
    for (const auto& [least, d] : order) {
      if (least >= cut) break;
      Degrees at = *d;
      double limit = cut / (1 - kSpreadByLinks);
      ExpertEstimate estimate = estimator_->Of(at, estimator_->EndsOf(at), {}, limit);
      estimate = Recut(at, std::move(estimate), limit);
      if (!estimate.fits || !IsPlain(estimate)) is_memory_short_ = true;
      GridPoint point{at, estimate.seconds, estimate.by_links ? kSpreadByLinks : 0};
      if (!estimate.fits || point.least() >= cut) continue;
      if (best_ == kForbidden) cut = std::min(cut, kNear * estimate.seconds);
      found.push_back(std::move(point));
    }
    return found;
  }

  static bool IsPlain(const ExpertEstimate& estimate) {
    return std::all_of(estimate.stages.begin(), estimate.stages.end(),
                       [](const StageRecomputation& stage) { return stage.none(); });
  }

  // Stages of equal work need unequal memory: the first ones have most micro-batches in flight, and may have to recompute.
  // Layers then move to a stage beside as long as the estimate falls.
  ExpertEstimate Recut(Degrees& at, ExpertEstimate best, double limit) const {
    constexpr int64_t kMostStages = 16;
    bool plain = best.fits && IsPlain(best);
    bool free = at.layers_per_stage.empty() && at.chunks == 1 && at.pp > 1 && at.pp <= kMostStages;
    if (!best.known || plain || !free) return best;
    std::vector<int64_t> layers = LayersPerStage(task_.model, estimator_->EndsOf(at));
    auto better = [&](const ExpertEstimate& other) {
      return other.known &&
             (other.fits != best.fits ? other.fits : other.seconds < (1 - 1e-6) * best.seconds);
    };
    bool moved = !layers.empty();
    for (int64_t round = 0; moved && round < 2 * at.pp; ++round) {
      moved = false;
      for (size_t s = 0; s + 1 < layers.size(); ++s) {
        for (auto [from, to] : {std::pair(s, s + 1), std::pair(s + 1, s)}) {
          if (layers[from] < 2) continue;
          --layers[from];
          ++layers[to];
          ExpertEstimate other =
              estimator_->Of(at, StageEnds(task_.model, layers, layers.size()), {}, limit);
          if (better(other)) {
            best = std::move(other);
            at.layers_per_stage = layers;
            moved = true;
            continue;
          }
          ++layers[from];
          --layers[to];
        }
      }
    }
    return best;
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
    return estimator_->prices().Of(key, RecomputePolicy::kNone);
  }
  static int Blocks(const ExpertSums& sums) { return static_cast<int>(sums.layers.size()) - 1; }

  // What bounds are made of; points with more experts than there are go. False where nothing is known.
  bool FindBounds() {
    auto batch = static_cast<double>(std::max<int64_t>(1, BatchSize(task_.model)));
    std::set<double> sizes;
    std::set<int64_t> spread;
    for (const Degrees& d : grid_) {
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
    std::erase_if(grid_, [&](const Degrees& d) { return d.ep > most; });
    return true;
  }

  // Whether weights and state alone are more than devices have, were stages alike and all of them split by tp.
  bool IsTooLarge(const Degrees& d) const {
    double kept = 1 - task_.pruning.sparsity;
    auto held = [&](int64_t ranks) {
      HeldBytes each = HeldBytesOf(estimator_->prices().precision(), kept, ranks > 1 ? d.zero : 0,
                                   static_cast<double>(ranks), d.microbatches == 1, d.offload);
      return each.at_peak(d.microbatches > 1);
    };
    double bytes = (parameters_ - of_experts_) * held(d.dp * d.cp) +
                   of_experts_ / static_cast<double>(d.ep) * held(d.dp / d.ep * d.cp);
    return bytes / static_cast<double>(d.tp * d.pp) > limit_;
  }

  // Points further from the fastest are left out: estimates are wrong by less.
  static constexpr double kNear = 1.1;
  // Estimates can exceed simulated steps by this factor. What has axes that the exact search does not have is simulated even
  // so: nothing else takes its place.
  static constexpr double kTooHigh = 1.02;

  const SearchTask task_;  // plans may be made after the caller's is gone
  std::vector<Degrees> grid_;
  std::shared_ptr<ExpertEstimator> estimator_;
  double limit_;
  bool known_ = false;                         // bounds are
  double best_ = kForbidden;                   // seconds of the best plan that fits
  std::atomic<bool> is_memory_short_ = false;  // plans or points do not fit, or recompute
  double error_ = 1;                           // what its step was of its estimate
  double fastest_ = kForbidden;                // estimate of a point that fits
  double whole_ = 0;                           // seconds of the batch on one device
  double parameters_ = 0, of_experts_ = 0;     // elements; of these, those that ep spreads
  std::vector<GridPoint> points_;
  double batch_ = 1, devices_ = 1;
};

}  // namespace

std::vector<Proposal> BestExperts(const SearchTask& task, std::vector<Degrees> points,
                                  const std::string& from, const JudgedPlan* best, size_t most) {
  if (points.empty()) return {};
  GridSearch grid(task, std::move(points));
  grid.Weigh(best != nullptr && best->fits ? best->result.step_seconds : kForbidden);
  return grid.Plans(best, from, most);
}

namespace {

constexpr size_t kMostOfGrid = 36;

std::vector<Degrees> GridOf(const SearchTask& task) {
  if (task.cluster.device_types.size() > 1 || task.effort.Over()) return {};
  return ExpertDegrees(task, {});
}

}  // namespace

std::vector<Proposal> ExpertGrid(const SearchTask& task, const JudgedPlan* best) {
  return BestExperts(task, GridOf(task), "", best, kMostOfGrid);
}

GridPlans WeighExpertGrid(const SearchTask& task, double seconds) {
  std::vector<Degrees> points = GridOf(task);
  if (points.empty()) return [](const JudgedPlan*) { return std::vector<Proposal>(); };
  auto grid = std::make_shared<GridSearch>(task, std::move(points));
  grid->Weigh(seconds);
  return [task = task, grid, seconds](const JudgedPlan* best) {
    bool known = best != nullptr && best->fits && best->result.step_seconds <= seconds;
    return known ? grid->Plans(best, "", kMostOfGrid) : ExpertGrid(task, best);
  };
}

}  // namespace heddle
