// The tree search where devices or links differ. Plans on some of the types alone are proposed too, so that more devices
// never make a plan worse.
#include <algorithm>
#include <bit>
#include <set>

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
  part.prior = problem.prior;
  part.playouts = problem.playouts;
  return part;
}

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

Proposals ProposeTree(const SearchProblem& problem) {
  Proposals out;
  Model model = WithComputeType(problem.model, problem.precision);
  Placements space(problem, model);
  std::unique_ptr<Prior> uniform = UniformPrior();
  PlacementGame game(space, problem.prior != nullptr ? *problem.prior : *uniform);
  TreeOptions options;
  options.playouts = problem.playouts > 0 ? problem.playouts : kPlayouts;
  options.over = [&] {
    if (problem.progress) problem.progress("searching placements");
    return problem.Over();
  };
  TreeResult found = SearchTree(game, options);
  out.considered = static_cast<size_t>(found.playouts);
  for (const PlacementStrategy& strategy : game.Best(kProposed)) {
    if (!problem.Over()) game.Polish(strategy);
    const Evaluated& evaluated = game.Of(strategy);
    std::optional<Plan> plan = space.ToPlan(strategy, evaluated.policy);
    std::string from = "tree search";
    if (strategy == space.Everywhere()) from = "data in proportion to speed";
    out.plans.push_back({std::move(*plan), std::move(from), evaluated.seconds, 0, 0});
  }
  return out;
}

// Plans on the devices of each set of types but all.
void ProposeParts(const SearchProblem& problem, Proposals& out) {
  size_t types = problem.cluster.device_types.size();
  if (types < 2 || types > kMostTypes) return;
  for (uint32_t set = 1; set + 1 < uint32_t{1} << types; ++set) {
    if (problem.Over() && !out.plans.empty()) return;
    std::vector<int64_t> devices;
    for (const DeviceRun& run : EqualRuns(problem.cluster)) {
      if ((set >> run.type.index() & 1) == 0) continue;
      for (int64_t d = 0; d < run.count; ++d) devices.push_back(run.first.value + d);
    }
    std::sort(devices.begin(), devices.end());
    Cluster cluster = Select(problem.cluster, devices);
    SearchProblem part = On(problem, cluster);
    Proposals of = ProposeAnywhere(part);
    out.considered += of.considered;
    if (of.plans.size() > 2) of.plans.resize(2);
    for (Proposal& proposal : of.plans) {
      Return(problem, devices, proposal.plan);
      proposal.bound = 0;
      proposal.from += " on some types";
      out.plans.push_back(std::move(proposal));
    }
  }
}

void Append(Proposals& out, Proposals more) {
  out.considered += more.considered;
  for (Proposal& proposal : more.plans) out.plans.push_back(std::move(proposal));
}

Proposals Propose(const SearchProblem& problem) {
  Proposals out = ProposeExact(problem, nullptr);
  bool known = BatchSize(problem.model) > 0 && problem.model.batch.has_value();
  if (!known || !IsFree(problem) || DeviceCount(problem.cluster) < 2) return out;
  out.lower_bound = 0;  // of the exact search's space, with all devices as slow as the slowest
  out.additive = out.additive_bound = 0;
  out.judge_all = true;
  if (out.plans.size() > 2) out.plans.resize(2);
  ProposeParts(problem, out);
  Append(out, ProposeTree(problem));
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
