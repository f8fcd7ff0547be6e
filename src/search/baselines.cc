// What the others are measured against: data parallelism, and what an expert would write down at once.
#include <algorithm>

#include "base/error.h"
#include "cluster/topology.h"
#include "search/judge.h"
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

// Of the parameters that are not to be split.
bool SplitsWhole(const SearchProblem& problem, const Plan& plan) {
  const Model& model = problem.model;
  auto whole = [&](ValueId id) {
    const Value& value = model.graph.value(id);
    return value.kind == ValueKind::kParameter &&
           std::find(problem.whole.begin(), problem.whole.end(), value.name) != problem.whole.end();
  };
  if (problem.whole.empty()) return false;
  for (const Stage& stage : plan.stages) {
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      if (stage.strategies[n].empty()) continue;
      const std::vector<ValueId>& operands = model.graph.nodes[n].operands;
      for (size_t o = 0; o < operands.size(); ++o) {
        if (!whole(operands[o])) continue;
        Sharding stored = OperandSharding(stage.mesh, model.rules[n], stage.strategies[n], o);
        if (stored.split_axes() != 0) return true;
      }
    }
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

namespace {

int64_t AxisOf(const Plan& plan, std::string_view name) {
  for (const MeshAxis& axis : plan.stages.front().mesh.axes) {
    if (axis.name == name) return axis.size;
  }
  return 1;
}

// One sample a micro-batch; interleaved with as many chunks of equal layers as there may be.
void SetPipeline(const SearchProblem& problem, int64_t batch, Degrees& degrees) {
  degrees.sp = degrees.tp > 1;
  degrees.microbatches = batch / degrees.dp;
  degrees.zero = problem.fixed.zero.value_or(degrees.pp > 1 ? 1 : 3);
  degrees.schedule = "1f1b";
  degrees.chunks = 1;
  if (degrees.pp == 1 || degrees.microbatches % degrees.pp != 0) return;
  int64_t layers = LayersOf(problem.model);
  for (int chunks : {10, 8, 6, 5, 4, 3, 2}) {
    int64_t stages = degrees.pp * chunks;
    if (layers == 0 || layers % stages != 0) continue;
    degrees.schedule = "interleaved";
    degrees.chunks = chunks;
    degrees.layers_per_stage.assign(static_cast<size_t>(stages), layers / stages);
    return;
  }
}

}  // namespace

std::vector<Proposal> ContextPlans(const SearchProblem& problem, const Plan& best) {
  const FixedDegrees& fixed = problem.fixed;
  bool free = !fixed.dp && !fixed.tp && !fixed.pp && !fixed.microbatches && !fixed.chunks &&
              !fixed.schedule && fixed.layers_per_stage.empty() && problem.whole.empty();
  int64_t devices = DeviceCount(problem.cluster);
  int64_t batch = std::max<int64_t>(1, BatchSize(problem.model));
  if (!free) return {};
  std::vector<Degrees> all;
  if (batch < devices && devices % batch == 0) {
    Degrees degrees = Start(problem);
    degrees.dp = batch;
    degrees.cp = devices / batch;
    degrees.recompute = fixed.recompute.value_or(RecomputePolicy::kFull);
    SetPipeline(problem, batch, degrees);
    all.push_back(degrees);
  }
  Degrees same = Start(problem);
  same.dp = AxisOf(best, "dp");
  same.tp = AxisOf(best, "tp");
  same.pp = static_cast<int64_t>(best.stages.size()) / best.chunks;
  bool long_samples = best.microbatches * same.dp == batch && Recomputes(best);
  if (long_samples && DevicesOf(same) == DeviceCount(best)) {
    for (int64_t Degrees::*half : {&Degrees::pp, &Degrees::dp, &Degrees::tp}) {
      Degrees degrees = same;
      if (degrees.*half % 2 != 0) continue;
      degrees.*half /= 2;
      degrees.cp = 2;
      SetPipeline(problem, batch, degrees);
      all.push_back(degrees);
    }
  }
  std::vector<Proposal> plans;
  for (const Degrees& degrees : all) {
    for (Proposal& plan : One(problem, degrees, "expert with context parallelism").plans) {
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

SearcherDef DataSearcher() { return {"data", "data parallelism over all devices", ProposeData}; }
SearcherDef ExpertSearcher() {
  return {"expert", "Megatron's rules: tensor parallelism inside a node, data across",
          ProposeExpert};
}

}  // namespace heddle
