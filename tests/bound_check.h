// Tries to refute the lower bounds of the search. It draws plans from the search space, improves
// the best of them by hill climbing, and compares every simulated step with what the search claims
// that no plan is faster than.
//
//   BoundCheck check(BoundCases()[0], /*seed=*/1);
//   check.Run(/*drawn=*/100, /*climbed=*/100);
//   check.violations(), check.Summary()
//
// It does not know how a bound is computed. For every plan and its configuration it checks:
//   time     Estimator::TimeFloor <= step, whether the plan fits or not
//   floor    Estimator::Floor <= step, where the plan fits
//   close    Estimator::CloseFloor <= step, where the plan fits
//   bound    bound of the whole search <= step, where the plan fits and belongs to the space searched
// Floors are compared under two memory limits: the problem's, and exactly what the plan reserves, which is the least under
// which it fits. For the plans that come closest, the bound of a search for their degrees alone is compared as well.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bound_cases.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "configuration_of.h"
#include "frontend/load.h"
#include "plan/strategy_text.h"
#include "plan/verify.h"
#include "plan_sampler.h"
#include "program/lower.h"
#include "search/judge/judge.h"
#include "search/searcher.h"
#include "search/searchers.h"
#include "sim/simulate.h"

namespace heddle {

struct BoundViolation {
  std::string which;  // "time", "floor", "close", "bound" and the limit it is for
  double bound = 0, step = 0;
  Configuration configuration;
  std::string text;  // everything needed to reproduce it
  double ratio() const { return bound / step; }
};

class BoundCheck {
 public:
  // `scales` differ from 1 only in the test of this check (bound_terms_test.cc); `fixed` are
  // degrees that all plans have.
  BoundCheck(const BoundCase& at, uint64_t seed, const FixedDegrees& fixed = {},
             const TermScales& scales = {})
      : case_(at),
        seed_(seed),
        fixed_(fixed),
        scales_(scales),
        model_(Analyse(LoadModel(ModelName(at)))),
        cluster_(LoadCluster(at.cluster)),
        problem_(MakeProblem()),
        sampler_(problem_),
        rng_(seed) {
    sampler_.estimator().SetTermScales(scales);
    Proposals proposals = ProposeExact(problem_, nullptr);
    bound_ = proposals.lower_bound;
    bound_is_wide_ = proposals.space == SpaceInWords(true);
  }
  BoundCheck(const BoundCheck&) = delete;

  void Run(int drawn, int climbed) {
    DrawPlans(drawn);
    Climb(climbed);
    CheckOwnSearches();
  }

  // The plan of the search and the expert's plan for every `stride`th configuration.
  void CheckAssembled(size_t stride = 1) {
    for (size_t i = 0; i < sampler_.configurations().size(); i += stride) {
      const Configuration& c = sampler_.configurations()[i];
      if (auto plan = sampler_.Assembled(c)) Check(*plan, "the search's plan");
      for (bool sp : {false, true}) {
        for (RecomputePolicy policy : {RecomputePolicy::kNone, RecomputePolicy::kFull}) {
          if (auto plan = sampler_.Expert(c, sp, policy)) Check(*plan, "the expert's plan");
        }
      }
    }
  }

  const std::vector<BoundViolation>& violations() const { return violations_; }
  int plans() const { return plans_; }
  int fitting() const { return fitting_; }
  int64_t limit() const { return MemoryLimit(problem_); }

  std::string Summary() const {
    std::string text =
        fmt::format("{} on {}, {:.2f} GB: {} plans, {} fit; bound {:.4g} s, best {:.4g} s; closest",
                    case_.model, case_.cluster, static_cast<double>(limit()) / 1e9, plans_,
                    fitting_, bound_, best_ ? best_->step : 0);
    for (const auto& [which, ratio] : closest_) text += fmt::format(" {} {:.4f}", which, ratio);
    return text + fmt::format("; {} violations", violations_.size());
  }

  // For each kind of configuration the worst violation of the simplest bound that is violated.
  std::vector<BoundViolation> Worst() const {
    std::map<std::string, const BoundViolation*> worst;
    for (const BoundViolation& v : violations_) {
      const BoundViolation*& at = worst[KindOf(v.configuration)];
      auto order = [](const BoundViolation& of) { return std::pair(Order(of.which), -of.ratio()); };
      if (at == nullptr || order(v) < order(*at)) at = &v;
    }
    std::vector<BoundViolation> out;
    for (const auto& [kind, v] : worst) out.push_back(*v);
    return out;
  }

 private:
  struct Simulated {
    SampledPlan sample;
    double step = 0, ratio = 0;  // ratio of the closest of its floors to the step
    int64_t reserved = 0;
    bool fits = false;
  };

  // From the simplest on: later bounds include the terms of earlier ones.
  static size_t Order(const std::string& which) {
    static const std::vector<std::string> kOrder = {
        "time", "floor", "floor at own memory", "close", "close at own memory", "bound"};
    return static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), which) - kOrder.begin());
  }

  // Configurations whose bounds consist of the same terms.
  static std::string KindOf(const Configuration& c) {
    return fmt::format("{} {} {} {}", c.pp > 1 ? c.schedule : "", c.zero,
                       c.offload == Offload::kNone, c.axes.size());
  }

  static std::string ModelName(const BoundCase& at) {
    return at.model.starts_with("data/") ? HEDDLE_TEST_DATA + at.model.substr(4) : at.model;
  }

  SearchProblem MakeProblem() const {
    SearchProblem problem{.model = model_, .cluster = cluster_, .fixed = fixed_};
    problem.precision = case_.precision;
    problem.optimizer = case_.optimizer;
    problem.local_batch_statistics = case_.local_batch_statistics;
    if (case_.memory == 0) return problem;
    SearchResult unlimited = Search(*FindSearcher("auto"), problem);
    double needed = static_cast<double>(unlimited.judged.front().reserved());
    problem.memory_limit = static_cast<int64_t>(case_.memory * needed / (1 - problem.reserve));
    return problem;
  }

  // The plans of the whole search: the best one, from which hill climbing starts, and others that
  // fit.
  void CheckFound() {
    SearchResult found = Search(*FindSearcher("auto"), problem_);
    for (const JudgedPlan& judged : found.judged) {
      if (!judged.fits || judged.bound == 0 || judged.factors) continue;
      std::optional<Configuration> c = ConfigurationOf(judged.plan);
      if (c && sampler_.CutsAsTheSpaceSays(judged.plan)) Check({*c, judged.plan}, "found");
    }
  }

  void DrawPlans(int count) {
    CheckFound();
    CheckAssembled(std::max<size_t>(1, sampler_.configurations().size() / 8));
    for (int tries = 0; plans_ < count && tries < 20 * count; ++tries) {
      if (auto plan = sampler_.Draw(rng_)) Check(*plan, "drawn");
    }
  }

  // Alternates between the fastest plan, across configurations, and the closest bound of one kind
  // of configuration.
  void Climb(int count) {
    int last = plans_ + count;
    for (int tries = 0; plans_ < last && tries < 20 * count && !nearest_.empty(); ++tries) {
      bool fastest = best_ && tries % 2 == 0;
      auto kind = nearest_.begin();
      if (!fastest) std::advance(kind, Below(rng_, nearest_.size()));
      SampledPlan next = fastest ? best_->sample : kind->second.sample;
      if (fastest && Below(rng_, 3) == 0) {
        std::optional<SampledPlan> other = sampler_.Neighbour(next, rng_);
        if (!other) continue;
        next = *other;
      }
      for (int64_t changes = 1 + Below(rng_, 3); changes > 0; --changes) {
        next = sampler_.Changed(next, rng_);
      }
      Check(next, "climbed");
    }
  }

  // Simulates a plan, compares its step with all bounds, and remembers it if it is the best.
  void Check(const SampledPlan& sample, std::string_view how) {
    if (!Verify(sample.plan, model_).empty() || !sampler_.InSpace(sample)) return;
    SimResult result;
    try {
      result = Simulate(Lower(model_, sample.plan), cluster_, problem_.sim);
    } catch (const InputError&) {
      return;  // the schedule or the model does not allow it
    }
    ++plans_;
    Simulated now{sample, result.step_seconds, 0, result.reserved_memory_bytes, false};
    now.fits = now.reserved <= limit() && FitsHost(sample.plan, result);
    fitting_ += now.fits ? 1 : 0;
    const Configuration& c = sample.configuration;
    const FloorsOf& floors = CaseFloors(c);
    Compare("time", floors.time, problem_, now, how);
    if (now.fits) {
      Compare("floor", floors.floor, problem_, now, how);
      Compare("close", floors.close, problem_, now, how);
      if (IsSearched(c)) Compare("bound", bound_, problem_, now, how);
      if (!best_ || now.step < best_->step) best_ = now;
    }
    CheckAtOwnMemory(now, how);
    auto [nearest, fresh] = nearest_.try_emplace(KindOf(c), now);
    if (!fresh && now.ratio > nearest->second.ratio) nearest->second = now;
  }

  // Compares the plan with the floors under a memory limit of exactly what it reserves.
  void CheckAtOwnMemory(Simulated& now, std::string_view how) {
    SearchProblem tight = Tight(now);
    if (MemoryLimit(tight) < now.reserved) return;  // more than a device has
    Estimator estimator(tight, sampler_.prices());
    estimator.SetTermScales(scales_);
    const Configuration& c = now.sample.configuration;
    Compare("floor at own memory", estimator.Floor(c).floor, tight, now, how);
    if (c.axes.size() > 1) return;  // too slow
    Compare("close at own memory", estimator.CloseFloor(c), tight, now, how);
  }

  // Compares plans with the bound of a search that is free only in strategies, stages and
  // recomputation.
  void CheckOwnSearches() {
    constexpr size_t kSearches = 3;
    std::vector<Simulated> closest;
    for (const auto& [kind, at] : nearest_) {
      if (at.sample.configuration.axes.size() < 2) closest.push_back(at);
    }
    std::stable_sort(closest.begin(), closest.end(),
                     [](const Simulated& a, const Simulated& b) { return a.ratio > b.ratio; });
    if (closest.size() > kSearches) closest.resize(kSearches);
    if (best_ && best_->sample.configuration.axes.size() < 2) closest.push_back(*best_);
    for (Simulated& now : closest) {
      SearchProblem tight = Tight(now);
      if (MemoryLimit(tight) < now.reserved) continue;
      const Configuration& c = now.sample.configuration;
      tight.fixed = {.dp = c.dp, .tp = c.inner(), .pp = c.pp, .microbatches = c.microbatches};
      tight.fixed.zero = c.zero;
      tight.fixed.chunks = c.chunks;
      tight.fixed.offload = c.offload;
      tight.fixed.schedule = c.schedule;
      Compare("bound at own degrees and memory", ProposeExact(tight, nullptr).lower_bound, tight,
              now, "the closest");
    }
  }

  SearchProblem Tight(const Simulated& at) const {
    SearchProblem tight = problem_;
    tight.reserve = 0;
    tight.memory_limit = at.reserved;
    return tight;
  }

  void Compare(const std::string& which, double bound, const SearchProblem& problem, Simulated& now,
               std::string_view how) {
    double ratio = bound / now.step;
    closest_[which] = std::max(closest_[which], ratio);
    if (std::isfinite(ratio)) now.ratio = std::max(now.ratio, ratio);
    if (ratio <= 1 + 1e-9) return;
    BoundViolation v{which, bound, now.step, now.sample.configuration, ""};
    v.text = fmt::format(
        "{} is {:.6g} s and a step {:.6g} s, ratio {:.4f}: {} on {}, {}, {} (seed {}, plan {}; "
        "{})\n"
        "  {}{}",
        which, bound, now.step, ratio, case_.model, case_.cluster, ToString(v.configuration), how,
        seed_, plans_, Describe(now.sample.plan), CommandLine(problem, v.configuration),
        OtherStrategies(now.sample));
    violations_.push_back(std::move(v));
  }

  std::string Describe(const Plan& plan) const {
    std::string text = "stages end at";
    std::string policies;
    for (const Stage& stage : plan.stages) {
      text += fmt::format(" {}", stage.last_block);
      for (RecomputePolicy policy : stage.recompute) {
        policies += Name(policy)[0];
      }
      policies += ' ';
    }
    return text + ", recompute " + policies.substr(0, policies.size() - 1);
  }

  // The strategies in which the plan differs from the search's plan of the same configuration.
  std::string OtherStrategies(const SampledPlan& sample) {
    std::optional<SampledPlan> assembled = sampler_.Assembled(sample.configuration);
    if (!assembled) return "";
    FlatPlan own = Flatten(model_, sample.plan), search = Flatten(model_, assembled->plan);
    const Mesh& mesh = sample.plan.stages.front().mesh;
    if (!(mesh.axes == assembled->plan.stages.front().mesh.axes)) return "";
    std::string text;
    for (size_t n = 0; n < own.strategies.size(); ++n) {
      if (own.strategies[n] == search.strategies[n]) continue;
      const Rule& rule = model_.rules[n];
      text += fmt::format(
          "{} {} '{}' [{}] for [{}]", text.empty() ? "\n  strategies:" : ",",
          model_.graph.nodes[n].op, model_.graph.value(model_.graph.nodes[n].results[0]).name,
          ToText(mesh, rule, own.strategies[n]), ToText(mesh, rule, search.strategies[n]));
    }
    constexpr size_t kMost = 2000;
    return text.size() > kMost ? text.substr(0, kMost) + " ..." : text;
  }

  std::string CommandLine(const SearchProblem& problem, const Configuration& c) const {
    return fmt::format(
        "heddle plan {} --cluster {} --precision {} --optimizer {}{} --dp {} --tp {} --pp {} "
        "--microbatches {} --schedule {} --chunks {} --zero {} --offload {} --reserve {} "
        "--memory-limit {}B",
        case_.model, case_.cluster, PrecisionName(case_.precision, Products::kAsCompute),
        case_.optimizer, case_.local_batch_statistics ? " --batch-statistics local" : "", c.dp,
        c.inner(), c.pp, c.microbatches, c.schedule, c.chunks, c.zero, Name(c.offload),
        problem.reserve, problem.memory_limit);
  }

  struct FloorsOf {
    double time = 0, floor = 0, close = 0;
  };
  const FloorsOf& CaseFloors(const Configuration& c) {
    auto [at, fresh] = floors_.try_emplace(ToString(c));
    Estimator& estimator = sampler_.estimator();
    if (fresh) {
      at->second = {estimator.TimeFloor(c), estimator.Floor(c).floor, estimator.CloseFloor(c)};
    }
    return at->second;
  }

  bool IsSearched(const Configuration& c) const {
    const std::vector<Configuration>& all = sampler_.configurations();
    auto at = std::find(all.begin(), all.end(), c);
    bool listed = at - all.begin() < static_cast<int64_t>(sampler_.searched());
    return listed || (bound_is_wide_ && c.axes.size() > 1);
  }

  bool FitsHost(const Plan& plan, const SimResult& result) const {
    std::optional<int64_t> has = HostLimit(problem_);
    if (plan.offload == Offload::kNone || !has) return true;
    int64_t most = 0;
    for (const DeviceResult& device : result.devices) most = std::max(most, device.host_memory);
    return NodeOf(cluster_, DeviceId{0}).count * most <= *has;
  }

  const BoundCase case_;
  const uint64_t seed_;
  const FixedDegrees fixed_;
  const TermScales scales_;
  const Model model_;
  const Cluster cluster_;
  const SearchProblem problem_;
  PlanSampler sampler_;
  Random rng_;
  double bound_ = 0;
  bool bound_is_wide_ = false;
  int plans_ = 0, fitting_ = 0;
  std::optional<Simulated> best_;
  std::map<std::string, Simulated> nearest_;  // by kind of configuration
  std::map<std::string, FloorsOf> floors_;
  std::map<std::string, double> closest_;
  std::vector<BoundViolation> violations_;
};

}  // namespace heddle
