// The searcher for clusters whose devices or links differ.
#include "search/placement/mcts.h"

#include <algorithm>
#include <chrono>

#include "cluster/topology.h"
#include "plan/precision.h"
#include "search/explore/exact_search.h"
#include "search/placement/by_type.h"
#include "search/placement/placement_game.h"

namespace heddle {
namespace {

constexpr int64_t kPlayouts = 800;
constexpr size_t kProposed = 4;  // plans of the tree search

bool IsFree(const SearchTask& task) {
  const FixedDegrees& fixed = task.fixed;
  return !fixed.dp && !fixed.tp && !fixed.pp && !fixed.chunks && !fixed.schedule &&
         !fixed.offload && fixed.layers_per_stage.empty() && task.whole.empty();
}

// Orders by simulated or estimated seconds: what is judged first.
bool Sooner(const Proposal& a, const Proposal& b) { return a.estimate < b.estimate; }

// Fewer playouts with many devices, whose simulations take long.
int64_t PlayoutsOf(const SearchTask& task) {
  if (task.effort.playouts > 0) return task.effort.playouts;
  constexpr int64_t kFew = 16, kLeast = 16;
  return std::clamp(kPlayouts * kFew / DeviceCount(task.cluster), kLeast, kPlayouts);
}

bool IsThere(const Proposals& proposals, const Plan& plan) {
  return std::any_of(proposals.plans.begin(), proposals.plans.end(),
                     [&](const Proposal& other) { return other.plan == plan; });
}

// Adds the plans of the tree search and data parallelism in proportion to speed.
void ProposeTree(const SearchTask& task, const Placements& space, Proposals& out) {
  std::unique_ptr<Prior> uniform = UniformPrior();
  PlacementGame game(space, task.effort.prior != nullptr ? *task.effort.prior : *uniform);
  TreeOptions options;
  options.playouts = PlayoutsOf(task);
  // Half of the remaining time; the other half is for judging.
  auto now = std::chrono::steady_clock::now();
  bool endless = task.effort.deadline == std::chrono::steady_clock::time_point::max();
  auto until = endless ? task.effort.deadline : now + (task.effort.deadline - now) / 2;
  options.over = [&] {
    task.effort.Report("searching placements");
    return task.effort.Over() || std::chrono::steady_clock::now() >= until;
  };
  TreeResult found = SearchTree(game, options);
  out.considered += static_cast<size_t>(found.playouts);
  auto add = [&](const PlacementStrategy& strategy, std::string_view from) {
    const Evaluated& evaluated = game.Of(strategy);
    std::optional<Plan> plan = space.ToPlan(strategy, evaluated.policy);
    if (from != kProportional && IsThere(out, *plan)) return;
    out.plans.push_back({std::move(*plan), std::string(from), evaluated.seconds, 0, 0});
  };
  if (game.Of(space.Everywhere()).possible) add(space.Everywhere(), kProportional);
  int64_t polishing = options.playouts / 2;
  for (const PlacementStrategy& strategy : game.Best(kProposed)) {
    if (!options.over()) polishing -= game.Polish(strategy, polishing);
    add(strategy, "tree search");
  }
}

Proposals Propose(const SearchTask& task) {
  Proposals out = ProposeExact(task, nullptr);
  bool known = BatchSize(task.model) > 0 && task.model.batch.has_value();
  if (!known || !IsFree(task) || DeviceCount(task.cluster) < 2) return out;
  // The exact search's bound holds only for devices that are all as slow as the slowest.
  out.lower_bound = 0;
  out.additive = out.additive_bound = 0;
  out.judge_all = true;
  if (out.plans.size() > 2) out.plans.resize(2);
  for (Proposal& plan : out.plans) plan.MakePlan();
  Model model = WithComputeType(task.model, task.precision);
  Placements space(task, model);
  ProposeTypes(task, space, out);
  ProposeTree(task, space, out);
  std::stable_sort(out.plans.begin(), out.plans.end(), Sooner);
  out.space = "placements of units of the model on device groups, and the exact search's space";
  return out;
}

Proposals ProposeAnywhere(const SearchTask& task) {
  return IsHomogeneous(task.cluster) ? ProposeExactWithBoundLater(task) : Propose(task);
}

}  // namespace

SearcherDef AutoSearcher() {
  return {
      "auto",
      "the exact search over meshes, stages, micro-batches and strategies; with mcts where devices "
      "or links differ",
      ProposeAnywhere};
}

SearcherDef MctsSearcher() {
  return {"mcts", "tree search over placements on unlike devices and links", Propose};
}

}  // namespace heddle
