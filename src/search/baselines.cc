// What the others are measured against: data parallelism, and what an expert would write down at once.
#include <algorithm>

#include "base/error.h"
#include "cluster/topology.h"
#include "search/expert_estimate.h"
#include "search/searchers.h"

namespace heddle {
namespace {

Degrees Start(const SearchProblem& problem) {
  Degrees degrees;
  degrees.precision = problem.precision;
  degrees.gradients = problem.gradients;
  degrees.products = problem.products;
  degrees.local_batch_statistics = problem.local_batch_statistics;
  degrees.zero = problem.fixed.zero.value_or(0);
  degrees.recompute = problem.fixed.recompute.value_or(RecomputePolicy::kNone);
  degrees.offload = problem.fixed.offload.value_or(Offload::kNone);
  degrees.schedule = problem.fixed.schedule.value_or("1f1b");
  degrees.chunks = problem.fixed.chunks.value_or(1);
  degrees.layers_per_stage = problem.fixed.layers_per_stage;
  return degrees;
}

// The most data ranks that divide the batch; what they get is one micro-batch unless the user says otherwise.
bool SetData(const SearchProblem& problem, Degrees& degrees) {
  int64_t batch = std::max<int64_t>(1, BatchSize(problem.model));
  int64_t left = DeviceCount(problem.cluster) / (degrees.tp * degrees.pp);
  if (problem.fixed.dp) left = std::min(left, *problem.fixed.dp);
  degrees.microbatches = problem.fixed.microbatches.value_or(1);
  for (int64_t dp = left; dp >= 1; --dp) {
    if (batch % (dp * degrees.microbatches) != 0) continue;
    degrees.dp = dp;
    return !problem.fixed.dp || dp == *problem.fixed.dp;
  }
  return false;
}

Proposals One(const SearchProblem& problem, const Degrees& degrees, std::string_view name) {
  Proposals out;
  out.considered = 1;
  try {
    Plan plan = ExpertPlan(problem.model, problem.cluster, degrees);
    plan.bucket_bytes = problem.bucket_bytes;
    if (!SplitsWhole(problem, plan)) {
      out.plans.push_back({std::move(plan), std::string(name), 0, 0, 0});
    }
  } catch (const InputError&) {
    // Not for this model.
  }
  return out;
}

Proposals ProposeData(const SearchProblem& problem) {
  Degrees degrees = Start(problem);
  bool other = problem.fixed.tp.value_or(1) > 1 || problem.fixed.pp.value_or(1) > 1;
  if (other || !SetData(problem, degrees)) return {};
  return One(problem, degrees, "data");
}

// Megatron's habit: tensor parallelism over a node, sequence parallel, the rest data; recomputation of attention.
// Networks without matrix products of weights and activations are left to data parallelism.
Proposals ProposeExpert(const SearchProblem& problem) {
  Degrees degrees = Start(problem);
  int64_t node = NodeOf(problem.cluster, DeviceId{0}).count;
  degrees.pp = problem.fixed.pp.value_or(1);
  int64_t left = DeviceCount(problem.cluster) / (degrees.pp * problem.fixed.dp.value_or(1));
  degrees.tp = std::max<int64_t>(1, std::min({int64_t{8}, node, left}));
  while (node % degrees.tp != 0) --degrees.tp;
  degrees.tp = problem.fixed.tp.value_or(degrees.tp);
  degrees.sp = degrees.tp > 1;
  degrees.zero = problem.fixed.zero.value_or(1);
  degrees.recompute = problem.fixed.recompute.value_or(RecomputePolicy::kSelective);
  if (!SetData(problem, degrees)) return {};
  Proposals out = One(problem, degrees, "expert");
  if (!out.plans.empty()) return out;
  degrees.sp = false;  // no sequence
  out = One(problem, degrees, "expert");
  if (!out.plans.empty() || problem.fixed.tp) return out;
  degrees.tp = 1;
  if (!SetData(problem, degrees)) return {};
  return One(problem, degrees, "expert");
}

}  // namespace

std::optional<Proposal> ExpertLike(const SearchProblem& problem, const Plan& plan) {
  Degrees degrees = Start(problem);
  const Stage& first = plan.stages.front();
  degrees.recompute = first.recompute.front();
  for (const Stage& stage : plan.stages) {
    for (RecomputePolicy policy : stage.recompute) {
      if (policy != degrees.recompute) return std::nullopt;
    }
  }
  for (const MeshAxis& axis : first.mesh.axes) {
    if (axis.name == "dp") {
      degrees.dp = axis.size;
    } else if (axis.name == "tp") {
      degrees.tp = axis.size;
    } else {
      return std::nullopt;
    }
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
    std::vector<Proposal> plans = One(problem, degrees, "expert at these degrees").plans;
    if (!plans.empty()) return std::move(plans.front());
  }
  return std::nullopt;
}

SearcherDef DataSearcher() { return {"data", "data parallelism over all devices", ProposeData}; }
SearcherDef ExpertSearcher() {
  return {"expert", "Megatron's rules: tensor parallelism inside a node, data across",
          ProposeExpert};
}

}  // namespace heddle
