#include "search/replicas/with_factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/parallel.h"
#include "cluster/topology.h"
#include "plan/precision.h"
#include "program/stage_builder.h"
#include "search/judge/bucket_sizes.h"
#include "search/judge/judge.h"

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

// A quick test of what may gain, because most plans gain nothing.
struct Prospects {
  // For some node fewer bytes are gathered for dy, which all of its gradients need, than are
  // reduced for them, 2 (M-1)/M of their bytes. Both take the same time per byte over the same
  // group.
  bool factors = false;
  bool nodes = false;  // the mesh has only replicas
  bool Allow(Whole what) const { return factors || (nodes && what == Whole::kNodes); }
};

// Replicas do not compare what each of them computed, and only like devices round alike.
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
  prospects.nodes = HasOnlyReplicas(model, stage) && !plan.local_batch_statistics;
  for (NodeId id : NodesOf(model, stage)) {
    const Node& node = model.graph.node(id);
    const Rule& rule = model.rules[id.index()];
    const Strategy& strategy = stage.strategies[id.index()];
    std::map<AxisMask, double> reduced;  // bytes, by the axes over which they are partial
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
      Sharding part = ResultGradient(stage.mesh, rule, strategy, 0);
      Sharding whole = ResultGradient(stage.mesh, rule, Without(strategy, axes), 0);
      DType dtype =
          rule.result_dtypes[0] == DType::kF32 ? plan.precision.compute : rule.result_dtypes[0];
      double gathered = BytesOf(stage.mesh, whole, dtype) - BytesOf(stage.mesh, part, dtype);
      double share = 1 - 1 / static_cast<double>(members);
      prospects.factors = prospects.factors || gathered < share * bytes;
    }
  }
  return prospects;
}

// Plans of one model. Costs are computed only for stages that may gain.
class Factoring {
 public:
  // Both must outlive it.
  Factoring(const Model& model, const SimOptions& sim) : model_(model), sim_(sim) {}

  // All plans must have the same cluster and compute type.
  void SetPlan(const Plan& plan) {
    plan_ = &plan;
    prospects_.assign(plan.stages.size(), {});
    InParallel(plan.stages.size(),
               [&](size_t s) { prospects_[s] = ProspectsOf(model_, plan, plan.stages[s]); });
  }

  std::optional<Factored> Solve(Whole what) {
    bool any = std::any_of(prospects_.begin(), prospects_.end(),
                           [&](const Prospects& at) { return at.Allow(what); });
    if (!any || plan_->zero.level >= 2) return std::nullopt;
    if (!network_) {
      computed_ = WithComputeType(model_, plan_->precision.compute);
      network_.emplace(plan_->cluster, LinkEfficiency(plan_->cluster, sim_));
    }
    Factored out;
    out.plan = *plan_;
    size_t runs = plan_->stages.size() / static_cast<size_t>(plan_->chunks);
    for (size_t run = 0; run < runs; ++run) SolveRun(run, runs, what, out);
    if (out.parameters + out.nodes == 0) return std::nullopt;
    return out;
  }

 private:
  // The chunks of a run have one mesh.
  void SolveRun(size_t run, size_t runs, Whole what, Factored& out) {
    CostOptions options;
    options.parts = plan_->microbatches;
    options.microbatches = static_cast<double>(plan_->microbatches);
    options.precision = plan_->precision;
    options.sim = sim_;
    options.network = &*network_;
    options.local_statistics = plan_->local_batch_statistics;
    std::optional<StageCosts> costs;
    for (size_t s = run; s < plan_->stages.size(); s += runs) {
      if (!prospects_[s].Allow(what)) continue;
      if (!costs) costs.emplace(*computed_, plan_->cluster, plan_->stages[s].mesh, options);
      for (const StageCut& at : StageCuts(*costs, *plan_, s, what)) {
        Apply(at, SolveByCut(at.problem, Payment::kOnce), out.plan.stages[s], out);
      }
    }
  }

  const Model& model_;
  const SimOptions& sim_;
  const Plan* plan_ = nullptr;
  std::vector<Prospects> prospects_;  // per stage
  std::optional<Model> computed_;     // in the plan's type
  std::optional<Network> network_;
};

}  // namespace

std::optional<Factored> WithFactors(const Model& model, const Plan& plan, const SimOptions& sim,
                                    Whole what) {
  HEDDLE_CHECK(what != Whole::kHalves, "no plan can say that");
  Factoring factoring(model, sim);
  factoring.SetPlan(plan);
  return factoring.Solve(what);
}

std::vector<Proposal> FactoredPlans(const SearchTask& task, const std::vector<JudgedPlan>& judged) {
  constexpr size_t kMost = 6;
  std::vector<Proposal> plans;
  Factoring factoring(task.model, task.sim);
  double best = kForbidden;
  for (const JudgedPlan& at : judged) {
    if (at.fits) best = std::min(best, at.result.step_seconds);
  }
  std::vector<const JudgedPlan*> tried;
  for (const JudgedPlan& at : judged) {
    bool waits = at.simulated && at.result.exposed_communication > 0;
    // A lower bound: the step without any exposed communication.
    double least = at.result.step_seconds * (1 - at.result.exposed_communication);
    if (!at.fits || !waits || at.factors || at.plan.zero.level >= 2 || least >= best) continue;
    // Plans with equal steps are equivalent, and of plans that differ in buckets only the best is
    // tried.
    bool known = std::any_of(tried.begin(), tried.end(), [&](const JudgedPlan* other) {
      return other->result.step_seconds == at.result.step_seconds ||
             DifferInBucketsAlone(other->plan, at.plan);
    });
    if (known) continue;
    if (tried.size() == kMost || task.effort.Over()) break;
    tried.push_back(&at);
    task.effort.Report("weighing gradients by factors");
    factoring.SetPlan(at.plan);
    for (Whole what : {Whole::kGradients, Whole::kNodes}) {
      std::optional<Factored> made = factoring.Solve(what);
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

Proposal FasterSync(const SearchTask& task, Proposal reduced) {
  std::optional<Factored> made = WithFactors(task.model, reduced.plan, task.sim, Whole::kGradients);
  if (!made) return reduced;
  JudgedPlan before = Judge(task, reduced);
  Proposal factored{std::move(made->plan), reduced.from};
  factored.factors = {made->parameters, made->nodes, before.result.step_seconds};
  JudgedPlan after = Judge(task, factored);
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
