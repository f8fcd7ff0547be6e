// The tree search where devices or links differ.
#include <algorithm>
#include <chrono>

#include "cluster/topology.h"
#include "plan/precision.h"
#include "search/placement/by_type.h"
#include "search/placement/placement_game.h"
#include "search/searchers.h"

namespace heddle {
namespace {

constexpr int64_t kPlayouts = 800;
constexpr size_t kProposed = 4;  // of the tree

bool IsFree(const SearchProblem& problem) {
  const FixedDegrees& fixed = problem.fixed;
  return !fixed.dp && !fixed.tp && !fixed.pp && !fixed.chunks && !fixed.schedule &&
         !fixed.offload && fixed.layers_per_stage.empty() && problem.whole.empty();
}

// Simulated as they may be, or estimated: what is judged first.
bool Sooner(const Proposal& a, const Proposal& b) { return a.estimate < b.estimate; }

// Simulations of many devices take long.
int64_t PlayoutsOf(const SearchProblem& problem) {
  if (problem.playouts > 0) return problem.playouts;
  constexpr int64_t kFew = 16, kLeast = 16;
  return std::clamp(kPlayouts * kFew / DeviceCount(problem.cluster), kLeast, kPlayouts);
}

bool IsThere(const Proposals& proposals, const Plan& plan) {
  return std::any_of(proposals.plans.begin(), proposals.plans.end(),
                     [&](const Proposal& other) { return other.plan == plan; });
}

// What the tree finds, and data in proportion to speed.
void ProposeTree(const SearchProblem& problem, const Placements& space, Proposals& out) {
  std::unique_ptr<Prior> uniform = UniformPrior();
  PlacementGame game(space, problem.prior != nullptr ? *problem.prior : *uniform);
  TreeOptions options;
  options.playouts = PlayoutsOf(problem);
  // Half of the time that is left, as what it finds is to be judged.
  auto now = std::chrono::steady_clock::now();
  bool endless = problem.deadline == std::chrono::steady_clock::time_point::max();
  auto until = endless ? problem.deadline : now + (problem.deadline - now) / 2;
  options.over = [&] {
    if (problem.progress) problem.progress("searching placements");
    return problem.Over() || std::chrono::steady_clock::now() >= until;
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

Proposals Propose(const SearchProblem& problem) {
  Proposals out = ProposeExact(problem, nullptr);
  bool known = BatchSize(problem.model) > 0 && problem.model.batch.has_value();
  if (!known || !IsFree(problem) || DeviceCount(problem.cluster) < 2) return out;
  out.lower_bound = 0;  // of the exact search's space, with all devices as slow as the slowest
  out.additive = out.additive_bound = 0;
  out.judge_all = true;
  if (out.plans.size() > 2) out.plans.resize(2);
  for (Proposal& plan : out.plans) plan.MakePlan();
  Model model = WithComputeType(problem.model, problem.precision);
  Placements space(problem, model);
  ProposeTypes(problem, space, out);
  ProposeTree(problem, space, out);
  std::stable_sort(out.plans.begin(), out.plans.end(), Sooner);
  out.space = "placements of units of the model on device groups, and the exact search's space";
  return out;
}

}  // namespace

Proposals ProposeAnywhere(const SearchProblem& problem) {
  return IsHomogeneous(problem.cluster) ? ProposeExact(problem, nullptr) : Propose(problem);
}

SearcherDef MctsSearcher() {
  return {"mcts", "tree search over placements on unlike devices and links", Propose};
}

}  // namespace heddle
