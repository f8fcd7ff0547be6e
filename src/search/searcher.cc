#include "search/searcher.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "cluster/topology.h"
#include "ops/rebatch.h"
#include "program/lower.h"
#include "search/judge.h"
#include "search/parallel.h"
#include "search/problem.h"
#include "search/searchers.h"
#include "search/spilled.h"

namespace heddle {
namespace {

double Since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What fits comes first, and the faster of two that fit; of two that do not, that which lacks less.
bool Better(const JudgedPlan& a, const JudgedPlan& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? a.result.step_seconds < b.result.step_seconds : a.reserved() < b.reserved();
}

// How much a simulation has to go through: nodes of all micro-batches on one device of each stage.
double SizeOf(const SearchProblem& problem, const Plan& plan) {
  return static_cast<double>(problem.model.graph.nodes.size()) *
         static_cast<double>(plan.microbatches);
}

bool IsThere(const std::vector<Proposal>& plans, const Plan& plan) {
  return std::any_of(plans.begin(), plans.end(),
                     [&](const Proposal& other) { return other.plan == plan; });
}

struct Effort {
  size_t most = SIZE_MAX;    // plans that fit
  double work = kForbidden;  // of simulation, once one fits
};

// Two at a time, in order, until that is done.
void JudgeAll(const SearchProblem& problem, std::vector<Proposal> plans, const Effort& effort,
              SearchResult& out) {
  size_t together = std::min<size_t>(2, effort.most);
  size_t fitting = 0;
  double work = 0;
  for (size_t first = 0; first < plans.size() && fitting < effort.most; first += together) {
    if (fitting > 0 && work >= effort.work) return;
    out.stopped = out.stopped || (!out.judged.empty() && problem.Over());
    if (out.stopped) return;
    if (problem.progress) problem.progress("simulating " + plans[first].from);
    size_t count = std::min(together, plans.size() - first);
    for (size_t i = first; i < first + count; ++i) work += SizeOf(problem, plans[i].plan);
    std::vector<std::optional<JudgedPlan>> judged(count);
    InParallel(count, [&](size_t i) {
      try {
        judged[i] = Judge(problem, std::move(plans[first + i]));
      } catch (const SimulationStopped&) {
        judged[i].reset();
      }
    });
    for (std::optional<JudgedPlan>& plan : judged) {
      out.stopped = out.stopped || !plan;
      if (!plan) continue;
      fitting += plan->fits ? 1 : 0;
      out.judged.push_back(std::move(*plan));
    }
  }
}

// Where nothing fits and little is missing estimates of memory were short: the problem, or what became of it before, with as
// much less of it. False where that is no way.
bool TakeLessMemory(const SearchResult& found, SearchProblem& problem) {
  constexpr double kLittle = 1.1;
  if (found.feasible() || found.judged.empty() || problem.Over()) return false;
  const JudgedPlan& best = found.judged.front();
  double over = static_cast<double>(best.reserved()) / static_cast<double>(found.memory_limit);
  if (!best.simulated || over <= 1 || over > kLittle) return false;
  auto limit = static_cast<double>(MemoryLimit(problem));
  problem.memory_limit = static_cast<int64_t>(limit / (1 - problem.reserve) / over * 0.99);
  return true;
}

}  // namespace

// Of parameters, on a device of a stage.
int64_t LeastBytes(const Model& model, const Plan& plan, const Stage& stage) {
  auto size = [](DType dtype) { return static_cast<double>(SizeOf(dtype)); };
  const Precision& precision = plan.precision;
  if (plan.offload == Offload::kAll) return 0;  // a shard of them, at a time
  double state = precision.moments_kept * size(precision.moments);
  if (precision.master != precision.compute) state += size(precision.master);
  if (plan.offload == Offload::kOptimizer) state = 0;
  double ranks = 1;
  for (const MeshAxis& axis : stage.mesh.axes) {
    auto named = std::find(plan.zero.axes.begin(), plan.zero.axes.end(), axis.name);
    if (named != plan.zero.axes.end()) ranks *= static_cast<double>(axis.size);
  }
  double bytes = 0;
  std::set<ValueId> seen;
  for (NodeId id : NodesOf(model, stage)) {
    const Node& node = model.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (model.graph.value(node.operands[o]).kind != ValueKind::kParameter) continue;
      if (!model.flow.needed[node.operands[o].index()]) continue;
      if (!seen.insert(node.operands[o]).second) continue;
      double elements = 1;
      Sharding sharding =
          OperandSharding(stage.mesh, model.rules[id.index()], stage.strategies[id.index()], o);
      for (int64_t n : LocalShape(stage.mesh, sharding, Position(stage.mesh.axes.size(), 0))) {
        elements *= static_cast<double>(n);
      }
      double kept = elements;  // fewer have state
      auto pruned = plan.pruning.kept.find(model.graph.value(node.operands[o]).name);
      if (pruned != plan.pruning.kept.end()) {
        kept *= static_cast<double>(pruned->second) /
                static_cast<double>(ByteCount(model.graph.value(node.operands[o]).type)) *
                size(model.graph.value(node.operands[o]).type.dtype);
      }
      double weights = plan.zero.level == 3 ? kept / ranks : elements;
      bytes += weights * size(precision.compute) + kept * state / (plan.zero.level > 0 ? ranks : 1);
    }
  }
  return static_cast<int64_t>(bytes);
}

// Of the smallest device of a mesh.
int64_t LeastLimit(const SearchProblem& problem, const Mesh& mesh) {
  if (problem.cluster.device_types.size() == 1) return MemoryLimit(problem);
  int64_t least = INT64_MAX;
  for (int64_t device : DevicesOf(mesh)) least = std::min(least, MemoryLimit(problem, device));
  return least;
}

// The step of a plan with a great many micro-batches, from one with as many as fill its pipeline four times: the rest is
// added at the pace of the slowest device. Nothing where all of them can be simulated, or the batch cannot change.
std::optional<SimResult> FromFew(const SearchProblem& problem, const SimOptions& sim,
                                 const Plan& plan, int64_t* few) {
  constexpr double kMany = 150'000;
  int64_t all = plan.microbatches, stages = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  *few = 4 * stages;
  bool whole = problem.every_microbatch || SizeOf(problem, plan) < kMany || all < 2 * *few;
  if (whole) return std::nullopt;
  Plan shorter = plan;
  shorter.microbatches = *few;
  shorter.batch = plan.batch / all * *few;
  Model model;
  try {
    model = Analyse(Rebatch(problem.model.graph, shorter.batch));
  } catch (const InputError&) {
    return std::nullopt;
  }
  SimResult result = Simulate(Lower(model, shorter), problem.cluster, sim);
  double pace = 0, share = static_cast<double>(*few);
  for (const DeviceResult& device : result.devices) {
    auto seconds = [&](Opcode op) { return device.kinds.seconds[static_cast<size_t>(op)]; };
    double copies = std::max(seconds(Opcode::kFetch), seconds(Opcode::kEvict));
    double end = std::max(seconds(Opcode::kUpdate), copies);
    pace = std::max(pace, (device.compute + device.exposed - end) / share);
  }
  double step = result.step_seconds + pace * static_cast<double>(all - *few);
  result.bubble *= result.step_seconds / step;
  result.flops *= static_cast<double>(all) / share;
  result.recomputed_flops *= static_cast<double>(all) / share;
  result.step_seconds = step;
  return result;
}

// A node full of the devices that hold most.
void SetHost(const SearchProblem& problem, JudgedPlan& judged) {
  if (judged.plan.offload == Offload::kNone) return;
  GroupSpan node = NodeOf(problem.cluster, DeviceId{0});
  for (const DeviceResult& device : judged.result.devices) {
    judged.host_bytes = std::max(judged.host_bytes, node.count * device.host_memory);
  }
  judged.host_limit = HostLimit(problem);
}

JudgedPlan Judge(const SearchProblem& problem, Proposal proposal) {
  if (proposal.judged) return *proposal.judged;
  JudgedPlan judged;
  judged.plan = std::move(proposal.plan);
  judged.plan.pruning = problem.pruning;
  SetOptimizer(judged.plan, problem.optimizer);
  judged.from = std::move(proposal.from);
  judged.estimate = proposal.estimate;
  judged.estimated_bytes = proposal.bytes;
  judged.bound = proposal.bound;
  judged.factors = proposal.factors;
  bool roomy = true;
  for (const Stage& stage : judged.plan.stages) {
    int64_t bytes = LeastBytes(problem.model, judged.plan, stage);
    judged.least_bytes = std::max(judged.least_bytes, bytes);
    roomy = roomy && bytes <= LeastLimit(problem, stage.mesh);
  }
  judged.memory_limit = MemoryLimit(problem);
  judged.simulated = roomy || problem.simulate_all;
  if (!judged.simulated) return judged;
  SimOptions sim = problem.sim;
  sim.stopped = Impatience(problem);
  int64_t few = 0;
  if (std::optional<SimResult> result = FromFew(problem, sim, judged.plan, &few)) {
    judged.result = std::move(*result);
    judged.simulated_microbatches = few;
  } else {
    judged.result = Simulate(Lower(problem.model, judged.plan), problem.cluster, sim);
    judged.simulated_microbatches = judged.plan.microbatches;
  }
  SetHost(problem, judged);
  judged.memory_limit = MemoryLimit(problem, judged.result.worst_device);
  judged.fits = judged.fits_host() && judged.reserved() <= judged.memory_limit;
  for (const DeviceResult& device : judged.result.devices) {
    if (device.device == judged.result.worst_device) judged.memory = device.memory;
  }
  return judged;
}

double SearchResult::gap() const {
  if (proposals.additive <= 0) return 0;
  return (proposals.additive - proposals.additive_bound) / proposals.additive;
}

double SearchResult::step_gap() const {
  if (!feasible() || proposals.lower_bound <= 0) return 1;
  // Where the best has factors, the plan it was made from comes after it; of what is spilled nothing is bounded.
  auto reduces = std::find_if(judged.begin(), judged.end(), [](const JudgedPlan& plan) {
    return !plan.factors && plan.plan.offload != Offload::kAll;
  });
  if (reduces == judged.end()) return 1;
  double step = reduces->result.step_seconds;
  return (step - proposals.lower_bound) / step;
}

std::span<const SearcherDef> AllSearchers() {
  static const std::vector<SearcherDef> all = {AutoSearcher(), DataSearcher(),  ExpertSearcher(),
                                               IlpSearcher(),  BruteSearcher(), MctsSearcher()};
  return all;
}

const SearcherDef* FindSearcher(std::string_view name) {
  for (const SearcherDef& def : AllSearchers()) {
    if (def.name == name) return &def;
  }
  return nullptr;
}

Precision PrecisionOf(const SearchProblem& problem) {
  Precision precision;
  precision.compute = problem.precision;
  precision.gradients = problem.gradients;
  precision.products = problem.products;
  precision.moments_kept = MomentsOf(problem.optimizer);
  return precision;
}

namespace {

int64_t LimitOf(const SearchProblem& problem, const DeviceType& type) {
  int64_t has = type.memory.value;
  if (problem.memory_limit > 0) has = std::min(problem.memory_limit, has);
  return static_cast<int64_t>((1 - problem.reserve) * static_cast<double>(has));
}

}  // namespace

int64_t MemoryLimit(const SearchProblem& problem) {
  int64_t least = INT64_MAX;
  for (const DeviceType& type : problem.cluster.device_types) {
    least = std::min(least, LimitOf(problem, type));
  }
  return least;
}

int64_t MemoryLimit(const SearchProblem& problem, int64_t device) {
  DeviceTypeId type = TypeOf(problem.cluster, DeviceId{static_cast<int32_t>(device)});
  return LimitOf(problem, problem.cluster.type(type));
}

std::optional<int64_t> HostLimit(const SearchProblem& problem) {
  GroupSpan node = NodeOf(problem.cluster, DeviceId{0});
  int64_t has = problem.cluster.group(node.group).host_memory.value;
  if (has == 0) return std::nullopt;
  int64_t device = problem.cluster.type(TypeOf(problem.cluster, DeviceId{0})).memory.value;
  // Devices whose memory is the machine's have a share of it each.
  bool own = device != has / node.count;
  if (own) return has;
  bool spare = problem.memory_limit > 0 && problem.memory_limit < device;
  return spare ? has - node.count * problem.memory_limit : 0;
}

namespace {

void SearchInto(const SearcherDef& searcher, const SearchProblem& problem, SearchResult& out) {
  if (problem.fixed.offload == Offload::kAll) {
    JudgeAll(problem, SpilledPlans(problem, &out.proposals.least_bytes), {}, out);
    out.proposals.considered = out.judged.size();
    return;
  }
  out.proposals = searcher.propose(problem);
  bool over = problem.Over();
  std::vector<Proposal> plans = std::move(out.proposals.plans);
  out.proposals.plans.clear();
  constexpr double kWork = 150'000;  // some tenths of a second
  Effort effort{8, kWork};
  if (problem.judged > 0) effort = {problem.judged, kForbidden};
  if (out.proposals.judge_all) effort = {};
  std::vector<Proposal> always;
  for (const SearcherDef& other : {DataSearcher(), ExpertSearcher()}) {
    for (Proposal& proposal : other.propose(problem).plans) {
      if (!IsThere(plans, proposal.plan)) always.push_back(std::move(proposal));
    }
  }
  // Megatron's rules at the degrees that were found.
  for (size_t i = 0; i < plans.size() && problem.judged != 1; ++i) {
    if (3 * SizeOf(problem, plans[i].plan) > kWork) continue;
    std::optional<Proposal> same = ExpertLike(problem, plans[i].plan);
    if (!same) continue;
    if (!IsThere(plans, same->plan)) always.push_back(std::move(*same));
    break;
  }
  JudgeAll(problem, std::move(plans), effort, out);
  JudgeAll(problem, std::move(always), {}, out);
  std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  SearchProblem less = problem;
  for (int tries = 0; tries < 3 && TakeLessMemory(out, less); ++tries) {
    JudgeAll(problem, searcher.propose(less).plans, effort, out);
    std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  }
  // Context parallelism beside what the best plan does, and the best of those with stages.
  std::vector<Proposal> context;
  auto staged = std::find_if(out.judged.begin(), out.judged.end(), [](const JudgedPlan& at) {
    return static_cast<int>(at.plan.stages.size()) > at.plan.chunks;
  });
  for (auto at : {out.judged.begin(), staged}) {
    if (at == out.judged.end()) continue;
    for (Proposal& plan : ContextPlans(problem, at->plan)) {
      if (!IsThere(context, plan.plan)) context.push_back(std::move(plan));
    }
  }
  JudgeAll(problem, std::move(context), {}, out);
  std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  if (problem.judged != 1) JudgeAll(problem, FactoredPlans(problem, out.judged), {}, out);
  std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  double least = 0;  // that of other plans is said
  // What does not fit, or only with state on the host, may be faster with everything there.
  if (!out.feasible() || out.judged.front().plan.offload != Offload::kNone)
    JudgeAll(problem, SpilledPlans(problem, &least), {}, out);
  out.proposals.considered = std::max(out.proposals.considered, out.judged.size());
  std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  out.stopped = out.stopped || over;
}

}  // namespace

SearchResult Search(const SearcherDef& searcher, const SearchProblem& problem) {
  auto begin = std::chrono::steady_clock::now();
  SearchResult out;
  out.memory_limit = MemoryLimit(problem);
  try {
    SearchInto(searcher, problem, out);
  } catch (const SimulationStopped&) {  // what was judged until then counts
    out.stopped = true;
    std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  }
  out.seconds = Since(begin);
  return out;
}

}  // namespace heddle
