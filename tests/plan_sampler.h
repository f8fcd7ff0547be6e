// Random plans from the space that the search enumerates, for tests of its lower bounds.
//
//   PlanSampler sampler(problem);
//   std::optional<SampledPlan> start = sampler.Assembled(configuration);   // the search's own plan
//   SampledPlan other = sampler.Changed(*start, rng);                      // with one changed choice
//
// A sampled plan may be invalid (plan/verify.h); the caller rejects it. The result depends only on the random numbers.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/precision.h"
#include "random_plan.h"
#include "search/explore/assemble.h"
#include "search/explore/estimate.h"
#include "search/prices/range_floors.h"
#include "search/prices/strategies.h"

namespace heddle {

struct SampledPlan {
  Configuration configuration;
  Plan plan;
};

// The choices of a plan independent of its stages: the policy of each block and the strategy of each node.
struct FlatPlan {
  std::vector<int> ends;  // of each stage: the block after its last one
  std::vector<RecomputePolicy> recompute;
  std::vector<Strategy> strategies;
};

inline FlatPlan Flatten(const Model& model, const Plan& plan) {
  FlatPlan flat;
  flat.strategies.resize(model.graph.nodes.size());
  for (const Stage& stage : plan.stages) {
    flat.ends.push_back(stage.last_block);
    flat.recompute.insert(flat.recompute.end(), stage.recompute.begin(), stage.recompute.end());
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      if (flat.strategies[n].empty()) flat.strategies[n] = stage.strategies[n];
    }
  }
  return flat;
}

// Sets the choices of `flat` in `plan`. The times of a stage change in proportion to its number of blocks.
inline void SetChoices(const Model& model, const FlatPlan& flat, Plan& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = plan.stages[s];
    double before = stage.last_block - stage.first_block;
    stage.first_block = s == 0 ? 0 : flat.ends[s - 1];
    stage.last_block = flat.ends[s];
    double scale = (stage.last_block - stage.first_block) / before;
    stage.times.forward *= scale;
    stage.times.backward *= scale;
    stage.times.weight *= scale;
    stage.recompute.assign(flat.recompute.begin() + stage.first_block,
                           flat.recompute.begin() + stage.last_block);
    stage.strategies.assign(flat.strategies.size(), {});
    for (NodeId id : NodesAndSideNodesOf(model, stage)) {
      stage.strategies[id.index()] = flat.strategies[id.index()];
    }
  }
}

class PlanSampler {
 public:
  // The problem must outlive it.
  explicit PlanSampler(const SearchProblem& problem)
      : problem_(problem),
        compute_model_(WithComputeType(problem.model, problem.precision)),
        prices_(compute_model_, problem.cluster, PriceOptionsOf(problem)),
        estimator_(problem, prices_) {
    AddSpace();
  }

  // The first `searched` ones are those that the search evaluates. Wider ones and other numbers of stages follow, for
  // which floors must also hold.
  const std::vector<Configuration>& configurations() const { return configurations_; }
  size_t searched() const { return searched_; }
  Prices& prices() { return prices_; }
  Estimator& estimator() { return estimator_; }

  // The plan that the search makes for a configuration; nullopt if there is none.
  std::optional<SampledPlan> Assembled(const Configuration& c) {
    auto [at, fresh] = assembled_.try_emplace(ToString(c));
    if (!fresh) return at->second;
    Estimate estimate = estimator_.Of(c);
    if (!estimate.stages.empty()) {
      at->second = {c, Assemble(problem_, hash_, prices_, estimator_, c, estimate)};
    }
    return at->second;
  }

  // The expert's plan at the same degrees.
  std::optional<SampledPlan> Expert(const Configuration& c, bool sp, RecomputePolicy recompute) {
    Degrees degrees;
    degrees.dp = c.dp;
    degrees.tp = c.inner();
    degrees.pp = c.pp;
    degrees.sp = sp;
    degrees.microbatches = c.microbatches;
    degrees.schedule = c.schedule;
    degrees.chunks = c.chunks;
    degrees.zero = c.zero;
    degrees.offload = c.offload;
    degrees.precision = problem_.precision;
    degrees.gradients = problem_.gradients;
    degrees.recompute = recompute;
    degrees.local_batch_statistics = problem_.local_batch_statistics;
    if (c.axes.size() > 1 || (sp && c.axes.empty())) return std::nullopt;
    try {
      Plan plan = ExpertPlan(problem_.model, problem_.cluster, degrees);
      SetOptimizer(plan, problem_.optimizer);
      plan.bucket_bytes = problem_.bucket_bytes;
      return SampledPlan{c, std::move(plan)};
    } catch (const InputError&) {
      return std::nullopt;  // these degrees do not suit this model
    }
  }

  // True if stages end between units, and stages of interleaved schedules have equal numbers of layers or one less
  // (SpaceInWords).
  bool CutsAsTheSpaceSays(const Plan& plan) const {
    if (plan.stages.size() == 1) return true;
    ModelUnits units = UnitsOf(problem_.model);
    std::vector<int> ends = Flatten(problem_.model, plan).ends;
    if (plan.chunks > 1) return IsEvenCut(units, ends);
    return std::all_of(ends.begin(), ends.end(), [&](int end) {
      return std::find(units.begins.begin(), units.begins.end(), end) != units.begins.end();
    });
  }

  // A random configuration and the search's plan for it, with none, one or many of its choices changed.
  std::optional<SampledPlan> Draw(Random& rng) {
    static constexpr std::array<int, 8> kChanges = {0, 1, 2, 3, 5, 8, 20, 60};
    // Configurations that the search evaluates are drawn twice as often.
    size_t count = Below(rng, 3) == 0 ? configurations_.size() : searched_;
    std::optional<SampledPlan> at = Assembled(configurations_[Pick(rng, count)]);
    if (!at) return at;
    int changes = kChanges[Pick(rng, kChanges.size())];
    for (int i = 0; i < changes; ++i) at->plan = Changed(*at, rng).plan;
    return at;
  }

  // The same configuration with one choice changed.
  SampledPlan Changed(const SampledPlan& at, Random& rng) const {
    FlatPlan flat = Flatten(problem_.model, at.plan);
    switch (Below(rng, 6)) {
      case 0:
        MoveEnd(flat, rng);
        break;
      case 1:
        flat.recompute[Pick(rng, flat.recompute.size())] = RandomPolicy(rng);
        break;
      case 2:
        SetPolicyFrom(flat, rng);
        break;
      case 3:
        SetStrategy(at.configuration, false, flat, rng);
        break;
      default:
        SetStrategy(at.configuration, true, flat, rng);
    }
    SampledPlan out = at;
    SetChoices(problem_.model, flat, out.plan);
    return out;
  }

  // A configuration that differs in one or two fields, with the plan's choices transferred to it.
  std::optional<SampledPlan> Neighbour(const SampledPlan& at, Random& rng) {
    std::vector<const Configuration*> near;
    for (int most = 1; most <= 2 && near.empty(); ++most) {
      for (const Configuration& other : configurations_) {
        int apart = Differences(at.configuration, other);
        if (apart >= 1 && apart <= most) near.push_back(&other);
      }
    }
    if (near.empty()) return std::nullopt;
    std::optional<SampledPlan> out = Assembled(*near[Pick(rng, near.size())]);
    if (!out || Below(rng, 3) == 0) return out;  // keeps the choices of the search
    FlatPlan from = Flatten(problem_.model, at.plan), to = Flatten(problem_.model, out->plan);
    if (from.ends.size() == to.ends.size()) to.ends = from.ends;
    to.recompute = from.recompute;
    if (at.configuration.axes == out->configuration.axes) {
      size_t left = at.configuration.dp > 1 ? 1 : 0;  // the data axis
      for (size_t n = 0; n < to.strategies.size(); ++n) {
        if (from.strategies[n].empty() || to.strategies[n].empty()) continue;
        to.strategies[n].resize(out->configuration.dp > 1 ? 1 : 0);
        to.strategies[n].insert(to.strategies[n].end(),
                                from.strategies[n].begin() + static_cast<int64_t>(left),
                                from.strategies[n].end());
      }
    }
    SetChoices(problem_.model, to, out->plan);
    return out;
  }

  // True if stages are cut as in the space, policies are as fixed, and no node splits a factor along the free axes that
  // is smaller than the number of devices. Plans with such splits are valid, but the search does not choose them
  // (strategies.h), because some devices would be idle.
  bool InSpace(const SampledPlan& at) const {
    if (!CutsAsTheSpaceSays(at.plan)) return false;
    FlatPlan flat = Flatten(problem_.model, at.plan);
    for (RecomputePolicy policy : flat.recompute) {
      if (problem_.fixed.recompute && policy != *problem_.fixed.recompute) return false;
    }
    const Rules& rules = RulesOf(at.configuration);
    const std::vector<MeshAxis>& axes = at.plan.stages.front().mesh.axes;
    for (size_t n = 0; n < flat.strategies.size(); ++n) {
      std::map<int, int64_t> devices;  // key: factor
      for (size_t a = 0; a < flat.strategies[n].size(); ++a) {
        int f = flat.strategies[n][a].factor();
        if (f < 0 || axes[a].name == "dp") continue;
        int64_t& count = devices.try_emplace(f, 1).first->second;
        count *= axes[a].size;
        if (count > rules[n].factors[static_cast<size_t>(f)].size) return false;
      }
    }
    return true;
  }

 private:
  static size_t Pick(Random& rng, size_t count) { return static_cast<size_t>(Below(rng, count)); }
  static RecomputePolicy RandomPolicy(Random& rng) {
    return static_cast<RecomputePolicy>(Below(rng, kRecomputePolicies.size()));
  }

  void AddSpace() {
    auto add = [&](const SearchProblem& problem, bool wide, size_t stride) {
      size_t skipped = 0;
      for (const Configuration& c : Enumerate(problem, wide)) {
        if (seen_.count(ToString(c)) != 0 || ++skipped % stride != 0) continue;
        for (const auto& at : {std::optional(c), Offloaded(problem, c)}) {
          if (at && seen_.insert(ToString(*at)).second) configurations_.push_back(*at);
        }
      }
    };
    add(problem_, false, 1);
    searched_ = configurations_.size();
    // There are many configurations with two axes, each with slow problems, so only a few are used.
    size_t wide = Enumerate(problem_, true).size();
    constexpr size_t kWide = 4;
    if (wide > searched_) add(problem_, true, wide / kWide);
    SearchProblem staged = problem_;
    for (int64_t pp : {3, 5, 6}) {
      bool possible = pp <= UnitsOf(problem_.model).count() && pp <= DeviceCount(problem_.cluster);
      if (!possible || problem_.fixed.pp) continue;
      staged.fixed.pp = pp;
      add(staged, false, 1);
    }
  }

  static int Differences(const Configuration& a, const Configuration& b) {
    return (a.dp != b.dp) + (a.axes != b.axes) + (a.pp != b.pp) +
           (a.microbatches != b.microbatches) + (a.schedule != b.schedule || a.chunks != b.chunks) +
           (a.zero != b.zero) + (a.offload != b.offload);
  }

  // Moves the end of a stage to another unit boundary between its neighbours, mostly the next one.
  void MoveEnd(FlatPlan& flat, Random& rng) const {
    if (flat.ends.size() < 2) return;
    size_t s = Pick(rng, flat.ends.size() - 1);
    int low = s == 0 ? 0 : flat.ends[s - 1], high = flat.ends[s + 1];
    std::vector<int> allowed;
    for (int seam : UnitsOf(problem_.model).begins) {
      if (seam > low && seam < high && seam != flat.ends[s]) allowed.push_back(seam);
    }
    if (allowed.empty()) return;
    flat.ends[s] = allowed[Pick(rng, allowed.size())];
  }

  // Sets one policy for all blocks, for those from a block on, or for those up to a block.
  void SetPolicyFrom(FlatPlan& flat, Random& rng) const {
    size_t first = 0, last = flat.recompute.size(), kind = Pick(rng, 3);
    if (kind == 1) first = Pick(rng, last);
    if (kind == 2) last = 1 + Pick(rng, last);
    RecomputePolicy policy = RandomPolicy(rng);
    for (size_t b = first; b < last; ++b) flat.recompute[b] = policy;
  }

  // Sets another strategy of a node along the free axes. The data axis stays the same.
  void SetStrategy(const Configuration& c, bool all_copies, FlatPlan& flat, Random& rng) const {
    if (c.axes.empty()) return;
    const Model& model = problem_.model;
    size_t n = Pick(rng, flat.strategies.size());
    if (flat.strategies[n].empty()) return;
    const Node& node = model.graph.nodes[n];
    StrategyScope scope;
    scope.expand = model.block_of[n] >= 0;
    for (ValueId operand : node.operands) {
      scope.made_by_nodes.push_back(model.graph.value(operand).producer.valid());
    }
    std::vector<Strategy> all = StrategiesOf(MeshOf(c.axes), node.op, RulesOf(c)[n], scope);
    if (all.empty()) return;
    const Strategy& inner = all[Pick(rng, all.size())];
    for (size_t copy : all_copies ? CopiesOf(n) : std::vector<size_t>{n}) {
      Strategy& strategy = flat.strategies[copy];
      strategy.resize(strategy.size() - c.axes.size());
      strategy.insert(strategy.end(), inner.begin(), inner.end());
    }
  }

  // The rules at the samples per micro-batch of a data rank. Splits that these are too few for are not in the space.
  const Rules& RulesOf(const Configuration& c) const {
    auto [at, fresh] = rules_.try_emplace(c.dp * c.microbatches);
    if (fresh) at->second = MicroRules(problem_.model, c.dp * c.microbatches);
    return at->second;
  }

  // The corresponding nodes in all layers of the same kind, including the node itself.
  std::vector<size_t> CopiesOf(size_t n) const {
    for (const Chain& chain : problem_.model.folding.chains) {
      for (const std::vector<NodeId>& copy : chain.copies) {
        for (size_t j = 0; j < copy.size(); ++j) {
          if (copy[j].index() != n) continue;
          std::vector<size_t> nodes;
          for (const std::vector<NodeId>& each : chain.copies) nodes.push_back(each[j].index());
          return nodes;
        }
      }
    }
    return {n};
  }

  const SearchProblem& problem_;
  Model compute_model_;
  Prices prices_;
  Estimator estimator_;
  uint64_t hash_ = StableHash(problem_.model.graph);
  mutable std::map<int64_t, Rules> rules_;  // key: number of parts of the batch
  std::vector<Configuration> configurations_;
  size_t searched_ = 0;
  std::set<std::string> seen_;
  std::map<std::string, std::optional<SampledPlan>> assembled_;
};

}  // namespace heddle
