#include "search/placement/placement_game.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/parallel.h"
#include "plan/axes.h"
#include "program/lower.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

// The number of micro-batches: fills the pipeline twice, divides the batch, and is at most 8,
// because steps of many take long to simulate; 1 where stages share devices.
int64_t PipelineMicrobatches(const Plan& plan) {
  constexpr int64_t kMost = 8;
  size_t apart = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    bool shares = false;
    for (size_t other = 0; other < s && !shares; ++other) {
      shares = ShareDevices(plan.stages[s].mesh, plan.stages[other].mesh);
    }
    apart += shares ? 0 : 1;
  }
  if (apart < 2) return 1;
  int64_t wanted = std::min(kMost, static_cast<int64_t>(2 * apart));
  for (int64_t m = std::min(plan.batch, wanted); m > 1; --m) {
    if (plan.batch % m == 0) return m;
  }
  return 1;
}

void KeepBetter(Evaluated now, Evaluated& best) {
  bool better = now.possible &&
                ((now.fits && !best.fits) || (now.fits == best.fits && now.seconds < best.seconds));
  if (better) best = std::move(now);
}

bool HasData(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return BeginsWithData(stage.mesh); });
}

}  // namespace

PlacementGame::PlacementGame(const Placements& space, Prior& prior)
    : space_(space), prior_(prior), graph_(GraphOf(space)) {
  Evaluate({space_.Everywhere()});
  baseline_ = Of(space_.Everywhere()).seconds;
  if (baseline_ > 0) return;
  // Its parameters alone do not fit, so it was not simulated: the computation time on the slowest
  // devices.
  double devices = 0, samples = static_cast<double>(BatchSize(space_.task().model));
  for (const DeviceGroup& group : space_.groups()) devices += static_cast<double>(group.size());
  int blocks = space_.units().back().last_block;
  for (const DeviceGroup& group : space_.groups()) {
    double seconds =
        space_.times().Seconds(group.type, 0, blocks, std::max(1.0, samples / devices));
    baseline_ = std::max(baseline_, seconds);
  }
}

PlacementStrategy PlacementGame::Completed(const Prefix& prefix) const {
  PlacementStrategy strategy = prefix;
  strategy.resize(decisions(), prefix.empty() ? 0 : prefix.front());
  return strategy;
}

double PlacementGame::ValueOf(const Evaluated& evaluated) const {
  if (!evaluated.possible || !evaluated.fits || baseline_ <= 0) return -1;
  double value = baseline_ / evaluated.seconds - 1;
  return value > 1 ? std::sqrt(std::sqrt(value)) : value;
}

std::vector<double> PlacementGame::Values(const std::vector<Prefix>& prefixes) {
  std::vector<PlacementStrategy> strategies;
  for (const Prefix& prefix : prefixes) strategies.push_back(Completed(prefix));
  Evaluate(strategies);
  std::vector<double> values;
  for (const PlacementStrategy& strategy : strategies) values.push_back(ValueOf(Of(strategy)));
  return values;
}

PrefixState PlacementGame::StateOf(const Prefix& prefix) const {
  PrefixState state;
  state.prefix = prefix;
  state.strategy = Completed(prefix);
  const Evaluated& evaluated = Of(state.strategy);
  state.group_busy = evaluated.group_busy;
  state.group_memory = evaluated.group_memory;
  state.value = static_cast<float>(ValueOf(evaluated));
  return state;
}

std::vector<std::vector<double>> PlacementGame::Priors(const std::vector<Prefix>& prefixes) {
  std::vector<PrefixState> states;
  for (const Prefix& prefix : prefixes) states.push_back(StateOf(prefix));
  return prior_.Of(graph_, states);
}

void PlacementGame::Evaluate(const std::vector<PlacementStrategy>& strategies) {
  std::set<PlacementStrategy> fresh;
  for (const PlacementStrategy& strategy : strategies) {
    if (!known_.contains(strategy)) fresh.insert(strategy);
  }
  std::vector<PlacementStrategy> list(fresh.begin(), fresh.end());
  std::vector<Evaluated> made(list.size());
  InParallel(list.size(), [&](size_t i) { made[i] = Simulated(list[i]); });
  for (size_t i = 0; i < list.size(); ++i) known_.emplace(list[i], std::move(made[i]));
}

Evaluated PlacementGame::Judged(Plan plan, const Policy& policy) const {
  const SearchTask& task = space_.task();
  JudgedPlan judged = Judge(task, {std::move(plan), "", 0, 0, 0});
  Evaluated out;
  out.possible = true;
  out.policy = policy;
  out.fits = judged.fits;
  size_t groups = space_.groups().size();
  out.group_busy.assign(groups, 0);
  out.group_memory.assign(groups, 0);
  if (!judged.simulated) {
    out.group_memory.assign(groups, 1);
    return out;
  }
  out.seconds = judged.result.step_seconds;
  for (const DeviceResult& device : judged.result.devices) {
    for (size_t g = 0; g < groups; ++g) {
      const std::vector<int64_t>& devices = space_.groups()[g].devices;
      if (!std::binary_search(devices.begin(), devices.end(), device.device)) continue;
      const DeviceType& type = task.cluster.type(space_.groups()[g].type);
      auto has = static_cast<float>(type.memory.value);
      out.group_busy[g] =
          std::max(out.group_busy[g], static_cast<float>(device.compute / out.seconds));
      out.group_memory[g] =
          std::max(out.group_memory[g], static_cast<float>(device.peak_memory) / has);
    }
  }
  return out;
}

// Tries one micro-batch, or enough to fill a pipeline; where that does not fit, with ZeRO 1, then
// recomputation, then ZeRO 3.
Evaluated PlacementGame::Simulated(const PlacementStrategy& strategy) const {
  const FixedDegrees& fixed = space_.task().fixed;
  Policy policy{fixed.microbatches.value_or(1), fixed.zero.value_or(0),
                fixed.recompute.value_or(RecomputePolicy::kNone)};
  std::optional<Plan> plan = space_.ToPlan(strategy, policy);
  if (!plan) return {};
  Evaluated best = Judged(*plan, policy);
  auto consider = [&](const Policy& with) {
    std::optional<Plan> other = space_.ToPlan(strategy, with);
    if (other) KeepBetter(Judged(std::move(*other), with), best);
  };
  int64_t many = fixed.microbatches ? policy.microbatches : PipelineMicrobatches(*plan);
  Policy piped = policy;
  piped.microbatches = many;
  if (many > 1 && many != policy.microbatches) consider(piped);
  if (!best.fits && !fixed.zero && HasData(*plan)) {
    piped.zero = 1;
    consider(piped);
  }
  if (!best.fits && !fixed.recompute) {
    piped.recompute = kMostRecomputation;
    consider(piped);
  }
  if (!best.fits && !fixed.zero && HasData(*plan)) {
    piped.zero = 3;
    consider(piped);
  }
  return best;
}

// Tries twice and half the micro-batches, other ZeRO levels and other recomputation as long as the
// step becomes faster.
int64_t PlacementGame::Polish(const PlacementStrategy& strategy, int64_t most) {
  const FixedDegrees& fixed = space_.task().fixed;
  Evaluated& best = known_.at(strategy);
  int64_t simulated = 0;
  for (double before = 0; best.seconds != before;) {
    before = best.seconds;
    std::vector<Policy> near;
    int64_t m = best.policy.microbatches, batch = BatchSize(space_.task().model);
    if (!fixed.microbatches && batch % (2 * m) == 0) near.push_back(best.policy);
    if (!near.empty()) near.back().microbatches = 2 * m;
    if (!fixed.microbatches && m % 2 == 0) {
      near.push_back(best.policy);
      near.back().microbatches = m / 2;
    }
    for (int zero : {0, 1, 3}) {
      if (fixed.zero || zero == best.policy.zero) continue;
      near.push_back(best.policy);
      near.back().zero = zero;
    }
    for (const RecomputeDef& def : kRecomputePolicies) {
      RecomputePolicy policy = def.policy;
      if (fixed.recompute || policy == best.policy.recompute) continue;
      near.push_back(best.policy);
      near.back().recompute = policy;
    }
    near.resize(std::min(near.size(), static_cast<size_t>(most - simulated)));
    simulated += static_cast<int64_t>(near.size());
    std::vector<Evaluated> found(near.size());
    InParallel(near.size(), [&](size_t i) {
      std::optional<Plan> plan = space_.ToPlan(strategy, near[i]);
      if (plan) found[i] = Judged(std::move(*plan), near[i]);
    });
    for (Evaluated& other : found) KeepBetter(std::move(other), best);
  }
  return simulated;
}

std::vector<PlacementStrategy> PlacementGame::Best(size_t most) const {
  std::vector<std::pair<double, const PlacementStrategy*>> order;
  for (const auto& [strategy, evaluated] : known_) {
    if (evaluated.possible && evaluated.fits) order.push_back({evaluated.seconds, &strategy});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PlacementStrategy> best;
  for (size_t i = 0; i < std::min(most, order.size()); ++i) best.push_back(*order[i].second);
  return best;
}

}  // namespace heddle
