// The tree search where devices or links differ. Plans on some of the types alone are proposed too, so that more devices
// never make a plan worse.
#include <algorithm>
#include <bit>
#include <chrono>

#include "cluster/select.h"
#include "cluster/topology.h"
#include "plan/precision.h"
#include "search/placement_game.h"
#include "search/searchers.h"

namespace heddle {
namespace {

constexpr int64_t kPlayouts = 800;
constexpr size_t kProposed = 4;  // of the tree
constexpr size_t kMostTypes = 4;

// Devices of a part's plans as those of the whole.
void Return(const SearchProblem& problem, const std::vector<int64_t>& devices, Plan& plan) {
  plan.cluster = problem.cluster;
  for (Stage& stage : plan.stages) {
    std::vector<int64_t> places;
    for (int64_t device : DevicesOf(stage.mesh)) {
      places.push_back(devices[static_cast<size_t>(device)]);
    }
    Place(stage.mesh, places);
  }
}

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

// The same problem on other devices.
SearchProblem On(const SearchProblem& problem, const Cluster& cluster) {
  SearchProblem part{.model = problem.model, .cluster = cluster};
  part.fixed = problem.fixed;
  part.precision = problem.precision;
  part.gradients = problem.gradients;
  part.products = problem.products;
  part.local_batch_statistics = problem.local_batch_statistics;
  part.bucket_bytes = problem.bucket_bytes;
  part.memory_limit = problem.memory_limit;
  part.reserve = problem.reserve;
  part.whole = problem.whole;
  part.sim = problem.sim;
  part.every_microbatch = problem.every_microbatch;
  part.deadline = problem.deadline;
  part.stop = problem.stop;
  return part;
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
  std::vector<PlacementStrategy> best = game.Best(kProposed);
  if (std::find(best.begin(), best.end(), space.Everywhere()) == best.end()) {
    best.push_back(space.Everywhere());
  }
  for (const PlacementStrategy& strategy : best) {
    if (!game.Of(strategy).possible) continue;
    bool everywhere = strategy == space.Everywhere();
    if (!everywhere && !options.over()) game.Polish(strategy);
    const Evaluated& evaluated = game.Of(strategy);
    std::optional<Plan> plan = space.ToPlan(strategy, evaluated.policy);
    if (!everywhere && IsThere(out, *plan)) continue;
    std::string from(everywhere ? kProportional : "tree search");
    out.plans.push_back({std::move(*plan), std::move(from), evaluated.seconds, 0, 0});
  }
}

std::string NamesOf(const Cluster& cluster, uint32_t types) {
  std::string names;
  for (size_t t = 0; t < cluster.device_types.size(); ++t) {
    if ((types >> t & 1) == 0) continue;
    names += (names.empty() ? "" : " and ") + cluster.device_types[t].name;
  }
  return names;
}

// The best plans on one type of device each, and the same over other types as well.
void ProposeTypes(const SearchProblem& problem, const Placements& space, Proposals& out) {
  size_t types = problem.cluster.device_types.size();
  if (types < 2 || types > kMostTypes) return;
  for (size_t type = 0; type < types; ++type) {
    if (problem.Over() && !out.plans.empty()) return;
    std::vector<int64_t> devices;
    for (const DeviceRun& run : EqualRuns(problem.cluster)) {
      if (run.type.index() != type) continue;
      for (int64_t d = 0; d < run.count; ++d) devices.push_back(run.first.value + d);
    }
    Cluster cluster = Select(problem.cluster, devices);
    Proposals of = ProposeExact(On(problem, cluster), nullptr);
    out.considered += of.considered;
    if (of.plans.size() > 1) of.plans.resize(1);
    for (Proposal& proposal : of.plans) {
      Return(problem, devices, proposal.plan);
      proposal.bound = 0;
      std::string what = proposal.from;
      proposal.from = what + " on " + NamesOf(problem.cluster, uint32_t{1} << type);
      out.plans.push_back(proposal);
      for (uint32_t set = 1; set < uint32_t{1} << types; ++set) {
        if ((set >> type & 1) == 0 || std::has_single_bit(set)) continue;
        uint32_t groups = 0;
        for (size_t g = 0; g < space.groups().size(); ++g) {
          if ((set >> space.groups()[g].type.index() & 1) != 0) groups |= uint32_t{1} << g;
        }
        // With all its devices as fast as these.
        double share = static_cast<double>(devices.size()) /
                       static_cast<double>(DevicesIn(space.groups(), groups).size());
        // Fewer micro-batches have more samples to share.
        Plan plan = proposal.plan;
        for (int64_t divisor : {1, 2}) {
          if (proposal.plan.microbatches % divisor != 0) continue;
          plan.microbatches = proposal.plan.microbatches / divisor;
          std::optional<Plan> wide = space.Widened(plan, groups);
          if (!wide || IsThere(out, *wide)) continue;
          out.plans.push_back({std::move(*wide),
                               what + ", by speed on " + NamesOf(problem.cluster, set),
                               proposal.estimate * share, 0, 0});
        }
      }
    }
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
