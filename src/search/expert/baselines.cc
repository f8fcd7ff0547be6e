// The baselines: data parallelism and the expert's plan, both with the micro-batches, ZeRO level
// and recomputation that are estimated to be fastest.
#include "search/expert/baselines.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "search/expert/expert_estimate.h"
#include "search/expert/expert_grid.h"

namespace heddle {
namespace {

Degrees Start(const SearchTask& task) {
  Degrees degrees;
  degrees.precision = task.precision;
  degrees.gradients = task.gradients;
  degrees.products = task.products;
  degrees.local_batch_statistics = task.local_batch_statistics;
  degrees.zero = task.fixed.zero.value_or(0);
  degrees.recompute = task.fixed.recompute.value_or(RecomputePolicy::kNone);
  degrees.offload = task.fixed.offload.value_or(Offload::kNone);
  degrees.schedule = task.fixed.schedule.value_or("1f1b");
  degrees.chunks = task.fixed.chunks.value_or(1);
  degrees.layers_per_stage = task.fixed.layers_per_stage;
  return degrees;
}

// Nothing where the model does not allow the degrees.
std::optional<Proposal> One(const SearchTask& task, const Degrees& degrees, std::string_view name) {
  try {
    Plan plan = ExpertPlan(task.model, task.cluster, degrees);
    plan.bucket_bytes = task.bucket_bytes;
    if (!SplitsWhole(task, plan)) return Proposal{std::move(plan), std::string(name)};
  } catch (const InputError&) {
  }
  return std::nullopt;
}

// A ladder: the plans with the fastest estimates over all numbers of micro-batches, ZeRO levels and
// recomputation by layer.
Proposals Ladder(const SearchTask& task, int64_t tp, std::string_view name) {
  constexpr size_t kMost = 4;
  ExpertChoices choices;
  choices.tp = {tp};
  choices.pp = {task.fixed.pp.value_or(1)};
  choices.cp = choices.ep = {1};
  choices.zero = {0, 1, 2, 3};
  std::vector<Degrees> points = ExpertDegrees(task, choices);
  Proposals out;
  out.considered = points.size();
  out.plans = BestExperts(task, std::move(points), std::string(name), nullptr, kMost);
  return out;
}

Proposals ProposeData(const SearchTask& task) {
  bool other = task.fixed.tp.value_or(1) > 1 || task.fixed.pp.value_or(1) > 1;
  return other ? Proposals{} : Ladder(task, 1, "data");
}

// Megatron's usual choice: tensor parallelism inside a machine, sequence parallel, and data
// parallelism across machines. Networks without matrix products of weights and activations are left
// to data parallelism.
Proposals ProposeExpert(const SearchTask& task) {
  int64_t node = NodeOf(task.cluster, DeviceId{0}).count;
  int64_t others = task.fixed.pp.value_or(1) * task.fixed.dp.value_or(1);
  int64_t left = DeviceCount(task.cluster) / others;
  int64_t tp = std::max<int64_t>(1, std::min({int64_t{8}, node, left}));
  while (node % tp != 0) --tp;
  tp = task.fixed.tp.value_or(tp);
  Proposals out = Ladder(task, tp, "expert");
  if (out.plans.empty() && !task.fixed.tp && tp > 1) out = Ladder(task, 1, "expert");
  return out;
}

}  // namespace

std::optional<Proposal> ExpertLike(const SearchTask& task, const Plan& plan) {
  Degrees degrees = Start(task);
  const Stage& first = plan.stages.front();
  degrees.recompute = first.recompute.front();
  for (const Stage& stage : plan.stages) {
    for (RecomputePolicy policy : stage.recompute) {
      if (policy != degrees.recompute) return std::nullopt;
    }
  }
  for (const MeshAxis& axis : first.mesh.axes) {
    const ParallelAxis* known = FindAxis(axis.name);
    if (known == nullptr || !known->is_degree() || !known->searched) return std::nullopt;
    degrees.*known->degree = axis.size;
  }
  degrees.pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  degrees.chunks = plan.chunks;
  degrees.schedule = plan.schedule;
  degrees.microbatches = plan.microbatches;
  degrees.zero = plan.zero.level;
  degrees.offload = plan.offload;
  degrees.sp = degrees.tp > 1;
  for (bool sp : {degrees.sp, false}) {
    degrees.sp = sp;
    std::optional<Proposal> plan = One(task, degrees, "expert at these degrees");
    if (plan) return plan;
  }
  return std::nullopt;
}

SearcherDef DataSearcher() { return {"data", "data parallelism over all devices", ProposeData}; }
SearcherDef ExpertSearcher() {
  return {"expert", "Megatron's rules: tensor parallelism inside a node, data across",
          ProposeExpert};
}

}  // namespace heddle
