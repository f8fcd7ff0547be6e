#include "search/with_factors.h"

#include <fmt/format.h>

#include <map>

#include "base/check.h"
#include "cluster/topology.h"
#include "plan/precision.h"
#include "program/stage_builder.h"
#include "search/judge.h"
#include "search/searchers.h"

namespace heddle {
namespace {

void Apply(const StageCut& at, const Cut& cut, Stage& stage, Factored& out) {
  out.saved -= cut.objective;
  for (size_t i = 0; i < at.operations.size(); ++i) {
    const StageOperation& operation = at.operations[i];
    if (!cut.whole[i] || operation.kind != OperationKind::kForward) continue;
    stage.strategies[operation.node.index()] =
        Without(stage.strategies[operation.node.index()], at.axes);
    ++out.nodes;
  }
  for (size_t i = 0; i < at.operations.size(); ++i) {
    const StageOperation& operation = at.operations[i];
    if (!cut.whole[i] || operation.kind != OperationKind::kWeight) continue;
    bool with_node = cut.whole[static_cast<size_t>(operation.forward)];
    if (with_node) continue;
    stage.sync[operation.value] = GradientSync::kFactors;
    ++out.parameters;
  }
}

double BytesOf(const Mesh& mesh, const Sharding& sharding, DType dtype) {
  double bytes = static_cast<double>(SizeOf(dtype));
  for (int64_t size : PaddedShape(mesh, sharding)) bytes *= static_cast<double>(size);
  return bytes;
}

// What may gain at all: most plans are seen to gain nothing before anything is priced.
struct Prospects {
  // For some node fewer bytes cross to gather dy, which all its gradients need, than to reduce these: 2 (M-1)/M of them.
  // Over the same group both take the same time per byte.
  bool factors = false;
  bool nodes = false;  // the mesh has replicas only
};

// Replicas never compare what each computed for itself: only like devices round alike.
bool AreAlike(const Cluster& cluster, const Mesh& mesh) {
  auto type = [&](int64_t device) {
    return TypeOf(cluster, DeviceId{static_cast<int32_t>(DeviceAt(mesh, device))});
  };
  for (int64_t d = 1; d < mesh.size(); ++d) {
    if (type(d) != type(0)) return false;
  }
  return true;
}

Prospects ProspectsOf(const Model& model, const Plan& plan, const Stage& stage) {
  double gradient = static_cast<double>(SizeOf(plan.precision.gradients));
  double weight = static_cast<double>(SizeOf(plan.precision.compute));
  double per_byte = plan.zero.level > 0 ? (gradient + weight) / gradient : 2;
  Prospects prospects;
  if (!AreAlike(plan.cluster, stage.mesh)) return prospects;
  for (NodeId id : NodesOf(model, stage)) {
    const Node& node = model.graph.node(id);
    const Rule& rule = model.rules[id.index()];
    const Strategy& strategy = stage.strategies[id.index()];
    std::map<AxisMask, double> reduced;  // bytes, by the axes they are partial over
    for (size_t o = 0; o < node.operands.size(); ++o) {
      bool parameter = model.graph.value(node.operands[o]).kind == ValueKind::kParameter;
      if (!parameter || !WantsGradient(model, id, o)) continue;
      Sharding partial = OperandGradient(stage.mesh, rule, strategy, o);
      reduced[partial.partial_axes()] +=
          per_byte * BytesOf(stage.mesh, partial, plan.precision.gradients);
    }
    for (const auto& [axes, bytes] : reduced) {
      int64_t members = GroupSize(stage.mesh, axes);
      if (members == 1) continue;
      bool only = members == stage.mesh.size() && !plan.local_batch_statistics;
      prospects.nodes = prospects.nodes || only;
      Sharding part = ResultGradient(stage.mesh, rule, strategy, 0);
      Sharding whole = ResultGradient(stage.mesh, rule, Without(strategy, axes), 0);
      DType dtype = rule.result_dtypes[0];
      double gathered = BytesOf(stage.mesh, whole, dtype) - BytesOf(stage.mesh, part, dtype);
      double share = 1 - 1 / static_cast<double>(members);
      prospects.factors = prospects.factors || gathered < share * bytes;
    }
  }
  return prospects;
}

// `model` computes in the plan's type.
std::optional<Factored> Solve(const Model& model, const Plan& plan, const SimOptions& sim,
                              const Network& network, Whole what) {
  CostOptions options;
  options.parts = plan.microbatches;
  options.microbatches = static_cast<double>(plan.microbatches);
  options.precision = plan.precision;
  options.sim = sim;
  options.network = &network;
  Factored out;
  out.plan = plan;
  size_t runs = plan.stages.size() / static_cast<size_t>(plan.chunks);
  for (size_t run = 0; run < runs; ++run) {  // chunks have the mesh of their run
    std::optional<StageCosts> costs;
    for (size_t s = run; s < plan.stages.size(); s += runs) {
      Prospects prospects = ProspectsOf(model, plan, plan.stages[s]);
      if (!prospects.factors && !(what == Whole::kNodes && prospects.nodes)) continue;
      if (!costs) costs.emplace(model, plan.cluster, plan.stages[s].mesh, options);
      for (const StageCut& at : StageCuts(*costs, plan, s, what)) {
        Apply(at, SolveByCut(at.problem, Payment::kOnce), out.plan.stages[s], out);
      }
    }
  }
  if (out.parameters + out.nodes == 0) return std::nullopt;
  return out;
}

}  // namespace

std::optional<Factored> WithFactors(const Model& model, const Plan& plan, const SimOptions& sim,
                                    Whole what) {
  HEDDLE_CHECK(what != Whole::kHalves, "no plan can say that");
  if (plan.zero.level >= 2) return std::nullopt;
  Network network(plan.cluster, LinkEfficiency(plan.cluster, sim));
  return Solve(WithComputeType(model, plan.precision.compute), plan, sim, network, what);
}

std::vector<Proposal> FactoredPlans(const SearchProblem& problem,
                                    const std::vector<JudgedPlan>& judged) {
  constexpr int kTried = 2;
  std::vector<Proposal> plans;
  Model model = WithComputeType(problem.model, problem.precision);
  Network network(problem.cluster, LinkEfficiency(problem.cluster, problem.sim));
  int tried = 0;
  for (const JudgedPlan& at : judged) {
    bool waits = at.simulated && at.result.exposed_communication > 0;
    if (!at.fits || !waits || at.plan.zero.level >= 2) continue;
    if (tried++ == kTried || problem.Over()) break;
    for (Whole what : {Whole::kGradients, Whole::kNodes}) {
      std::optional<Factored> made = Solve(model, at.plan, problem.sim, network, what);
      if (!made || (!plans.empty() && plans.back().plan == made->plan)) continue;
      Proposal proposal{std::move(made->plan), at.from, 0, 0, 0};
      if (made->parameters > 0) proposal.from += fmt::format(", {} by factors", made->parameters);
      if (made->nodes > 0) proposal.from += fmt::format(", {} nodes whole", made->nodes);
      proposal.factors = {made->parameters, made->nodes, at.result.step_seconds};
      plans.push_back(std::move(proposal));
    }
  }
  return plans;
}

Proposal FasterSync(const SearchProblem& problem, Proposal reduced) {
  std::optional<Factored> made =
      WithFactors(problem.model, reduced.plan, problem.sim, Whole::kGradients);
  if (!made) return reduced;
  JudgedPlan before = Judge(problem, reduced);
  Proposal factored{std::move(made->plan), reduced.from};
  factored.factors = {made->parameters, made->nodes, before.result.step_seconds};
  JudgedPlan after = Judge(problem, factored);
  bool faster = after.result.step_seconds < before.result.step_seconds;
  bool better = before.simulated && after.simulated && (after.fits || !before.fits) && faster;
  return better ? factored : reduced;
}

int64_t CountSync(const Plan& plan, GradientSync sync) {
  int64_t count = 0;
  for (const Stage& stage : plan.stages) {
    for (const auto& [parameter, chosen] : stage.sync) count += chosen == sync ? 1 : 0;
  }
  return count;
}

}  // namespace heddle
