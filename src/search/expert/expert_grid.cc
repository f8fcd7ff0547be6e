#include "search/expert/expert_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>

#include "base/log.h"
#include "base/parallel.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "search/expert/expert_estimate.h"
#include "search/expert/grid_bounds.h"
#include "search/explore/pipeline_step.h"
#include "search/judge/finalists.h"

namespace heddle {
namespace {

// A point whose plan may be simulated.
struct GridPoint {
  Degrees degrees;
  double seconds = 0;  // estimated
  double spread = 0;   // as in Proposal

  // The least that its step may be.
  double least() const { return (1 - spread) * seconds; }
};

// Number of devices that share a sample, tp, and ep.
using MeshKey = std::array<int64_t, 3>;

class GridSearch {
 public:
  GridSearch(const SearchTask& task, std::vector<Degrees> points)
      : task_(task),
        grid_(std::move(points)),
        estimator_(std::make_shared<ExpertEstimator>(task_)),
        bounds_(task_, estimator_),
        limit_(static_cast<double>(MemoryLimit(task))),
        batch_(static_cast<double>(std::max<int64_t>(1, BatchSize(task.model)))),
        devices_(static_cast<double>(DeviceCount(task.cluster))) {}

  // Estimates the points whose plans can be faster than `best` seconds.
  void Weigh(double best) {
    best_ = best;
    known_ = bounds_.Find(grid_);
    if (known_) WeighGroups();
  }

  // Plans of the weighed points. `best` must not be slower than the seconds given to Weigh.
  std::vector<Proposal> Plans(const JudgedPlan* best, const std::string& from, size_t most) {
    Compare(best);
    if (known_) WeighOffloaded();
    std::stable_sort(points_.begin(), points_.end(), IsFaster);
    std::vector<Degrees> chosen = Chosen(most, !from.empty());
    LogDebug("the expert's grid: {} points, {} weighed, the fastest {:.6g} s, {} chosen",
             grid_.size(), points_.size(), fastest_, chosen.size());
    if (chosen.empty() && best_ == kForbidden) chosen = Smallest();
    return Make(chosen, from);
  }

  // The fastest plans that Plans will probably contain as well: those with axes that the exact search does not have.
  std::vector<Proposal> Likely(size_t most) {
    std::stable_sort(points_.begin(), points_.end(), IsFaster);
    std::vector<Degrees> chosen = Chosen(points_.size(), false);
    std::erase_if(chosen, [](const Degrees& d) { return d.cp * d.ep == 1; });
    chosen.resize(std::min(most, chosen.size()));
    return Make(chosen, "");
  }

 private:
  static bool IsFaster(const GridPoint& a, const GridPoint& b) { return a.seconds < b.seconds; }

  std::vector<Proposal> Make(const std::vector<Degrees>& chosen, const std::string& from) {
    std::vector<std::optional<Proposal>> made(chosen.size());
    InParallel(chosen.size(), [&](size_t i) {
      // Only the first plan of a ladder has the plain name.
      std::string name = from.empty() ? NameOfExpert(chosen[i]) : from;
      if (!from.empty() && i > 0) name += fmt::format(", ZeRO {}", chosen[i].zero);
      made[i] = ProposeExpert(estimator_, chosen[i], name);
    });
    std::vector<Proposal> plans;
    for (std::optional<Proposal>& plan : made) {
      if (!plan) continue;
      plan->kind = KindOf(plan->plan);
      plan->kind.back() = plan->spread > 0;
      // The kind tells these from the exact search's estimates and from other axes.
      for (AxisRole role : {AxisRole::kContext, AxisRole::kExpert, AxisRole::kTensor}) {
        plan->kind.push_back(AxisWithRole(plan->plan.stages.front().mesh, role) >= 0);
      }
      plans.push_back(std::move(*plan));
    }
    return plans;
  }

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

  // The fastest points, but few of those that differ only in schedule, chunks and ZeRO.
  std::vector<Degrees> Chosen(size_t most, bool ladder) const {
    constexpr size_t kAlike = 3;
    std::map<std::vector<int64_t>, size_t> alike;
    std::vector<Degrees> chosen;
    for (const GridPoint& point : points_) {
      const Degrees& d = point.degrees;
      // On a mesh that the exact search has as well, estimates have the same error as there.
      double expected = d.cp * d.ep == 1 ? error_ * point.least() : point.least() / kTooHigh;
      bool far = best_ == kForbidden && point.seconds >= kNear * fastest_;
      if (chosen.size() == most || far) break;
      if (expected >= best_) continue;
      // Where latencies matter, plans that split state over data ranks are far slower than
      // estimated, but others are not.
      std::vector<int64_t> key = {d.dp, d.cp, d.tp, d.ep, d.pp, d.microbatches, d.zero > 0};
      // For a ladder the best of each ZeRO level, because the levels allow different improvements.
      if (ladder) key = {d.zero};
      if (++alike[key] > (ladder ? 1 : kAlike)) continue;
      if (!ladder && SameProgram(d, chosen)) continue;
      chosen.push_back(d);
    }
    return chosen;
  }

  // With one micro-batch, ZeRO 1 and 2 give the same program.
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

  // Weighs all points with optimizer offload, where memory is scarce.
  void WeighOffloaded() {
    bool offloads = !task_.fixed.offload && CanOffload(task_.cluster) && HostLimit(task_) != 0;
    if (!offloads || !(points_.empty() || IsShortOfMemory())) return;
    for (Degrees& at : grid_) at.offload = Offload::kOptimizer;
    WeighGroups();
  }

  // Does some plan or point not fit or recompute, and would offloading free a considerable share of
  // the memory even with the state divided among all devices?
  bool IsShortOfMemory() const {
    constexpr double kConsiderable = 0.05;
    HeldBytes each = HeldBytesOf(estimator_->prices().precision(), 1 - task_.pruning.sparsity, 1,
                                 devices_, true, Offload::kNone);
    return is_memory_short_ && bounds_.parameters() * each.state >= kConsiderable * limit_;
  }

  // Weighs groups of points with the same prices, by mesh and samples of a micro-batch. The smallest and the largest
  // micro-batches of all meshes are weighed first, then the others of the best meshes.
  void WeighGroups() {
    constexpr size_t kMeshes = 6, kFewGroups = 128;
    std::map<MeshKey, std::map<int64_t, std::vector<Degrees>>> groups;
    int64_t batch = std::max<int64_t>(1, BatchSize(task_.model));
    for (const Degrees& d : grid_) {
      if (bounds_.LeastSeconds(d) >= kTooHigh * best_ || bounds_.IsTooLarge(d)) continue;
      groups[{d.tp * d.cp, d.tp, d.ep}][batch / (d.dp * d.microbatches)].push_back(d);
    }
    std::map<MeshKey, double> fastest_of;  // estimates, by mesh
    std::map<MeshKey, double> work;        // device seconds per sample
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
    // The smallest and the largest micro-batches of a mesh may both be too slow or not fit, while others are fast. Such
    // meshes are kept separately, in the order of the device seconds for all samples.
    std::vector<std::pair<double, MeshKey>> known, unknown;
    for (const auto& [mesh, fastest] : fastest_of) {
      double least = work[mesh] * batch_ / devices_;
      if (fastest < kForbidden) known.push_back({fastest, mesh});
      if (fastest == kForbidden && least < Cut()) unknown.push_back({least, mesh});
    }
    for (auto* meshes : {&known, &unknown}) {
      std::stable_sort(meshes->begin(), meshes->end());
      // Where there are few groups, all of them are weighed.
      if (all > kFewGroups) meshes->resize(std::min(kMeshes, meshes->size()));
      for (const auto& [seconds, mesh] : *meshes) {
        if (task_.effort.Over()) return;
        WeighInner(mesh, groups[mesh]);
      }
    }
  }

  // Weighs all micro-batches of a mesh except the smallest and the largest.
  void WeighInner(const MeshKey& mesh, const std::map<int64_t, std::vector<Degrees>>& by_samples) {
    std::vector<std::pair<MeshKey, const std::vector<Degrees>*>> round;
    for (const auto& [samples, group] : by_samples) round.push_back({mesh, &group});
    if (round.size() <= 2) return;
    round.erase(round.begin());
    round.pop_back();
    WeighRound(round, nullptr);
  }

  // Is a mesh with fewer devices per sample too slow? Sharing a sample among more devices never
  // reduces the device seconds.
  bool IsDominated(const MeshKey& at, const std::map<MeshKey, double>& work) const {
    for (const auto& [other, seconds] : work) {
      bool less = other[2] == at[2] && other[1] <= at[1] && other[0] / other[1] <= at[0] / at[1];
      if (less && seconds * batch_ / devices_ >= Cut()) return true;
    }
    return false;
  }

  double Cut() const { return best_ < kForbidden ? kTooHigh * best_ : kNear * fastest_; }

  // Weighs some groups, adds their points and returns the fastest estimate of each group.
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

  // Stages of equal work need unequal memory: the first ones have the most micro-batches in flight,
  // and may have to recompute. Then layers are moved to neighbouring stages as long as the estimate
  // decreases.
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

  // Points above this multiple of the fastest estimate are left out: the errors of estimates are smaller.
  static constexpr double kNear = 1.1;
  // Estimates can exceed simulated steps by this factor. Points with axes that the exact search
  // does not have are simulated up to this factor, because no other searcher covers them.
  static constexpr double kTooHigh = 1.02;

  const SearchTask task_;  // a copy: plans may be made later
  std::vector<Degrees> grid_;
  std::shared_ptr<ExpertEstimator> estimator_;
  GridBounds bounds_;
  double limit_;
  bool known_ = false;                         // bounds are known
  double best_ = kForbidden;                   // seconds of the best plan that fits
  std::atomic<bool> is_memory_short_ = false;  // plans or points do not fit, or recompute
  double error_ = 1;                           // ratio of its step to its estimate
  double fastest_ = kForbidden;                // estimate of a point that fits
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

WeighedGrid WeighExpertGrid(const SearchTask& task, double seconds) {
  constexpr size_t kMostLikely = 2;
  std::vector<Degrees> points = GridOf(task);
  if (points.empty()) return {};
  auto grid = std::make_shared<GridSearch>(task, std::move(points));
  grid->Weigh(seconds);
  WeighedGrid weighed;
  weighed.likely = grid->Likely(kMostLikely);
  weighed.plans = [task = task, grid, seconds](const JudgedPlan* best) {
    bool known = best != nullptr && best->fits && best->result.step_seconds <= seconds;
    return known ? grid->Plans(best, "", kMostOfGrid) : ExpertGrid(task, best);
  };
  return weighed;
}

}  // namespace heddle
