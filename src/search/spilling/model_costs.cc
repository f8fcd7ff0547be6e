#include "search/spilling/model_costs.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "cluster/builder.h"
#include "cluster/topology.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "program/text.h"
#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {
namespace {

// Per cut between blocks: bytes of values that are made before it and read after it; with
// `gradients`, only of values that have one.
std::vector<int64_t> CutBytes(const Model& model, bool gradients) {
  std::vector<int64_t> change(model.blocks.size() + 2, 0);
  for (size_t v = 0; v < model.graph.values.size(); ++v) {
    const Value& value = model.graph.values[v];
    if (!value.producer.valid() || model.once[value.producer.index()]) continue;
    int made = model.block_of[value.producer.index()];
    if (made < 0 || (gradients && !model.flow.needed[v])) continue;
    int read = made;
    for (NodeId reader : model.readers[v]) {
      read = std::max(read, model.block_of[reader.index()]);
    }
    int64_t bytes = ElementCount(value.type.shape) * SizeOf(value.type.dtype);
    change[static_cast<size_t>(made) + 1] += bytes;
    change[static_cast<size_t>(read) + 1] -= bytes;
  }
  std::vector<int64_t> cut(model.blocks.size() + 1, 0);
  for (size_t c = 1; c < cut.size(); ++c) cut[c] = cut[c - 1] + change[c];
  return cut;
}

// Per unit: bytes of values that are made before it and read after it but not by it; with
// `gradients`, only of values that have one.
std::vector<int64_t> PassingBytes(const Model& model, const std::vector<int>& ends,
                                  bool gradients) {
  auto unit_of = [&](NodeId node) {
    int block = model.block_of[node.index()];
    return block < 0
               ? -1
               : static_cast<int>(std::upper_bound(ends.begin(), ends.end(), block) - ends.begin());
  };
  std::vector<int64_t> passing(ends.size(), 0);
  for (size_t v = 0; v < model.graph.values.size(); ++v) {
    const Value& value = model.graph.values[v];
    if (!value.producer.valid() || model.once[value.producer.index()]) continue;
    int made = unit_of(value.producer);
    if (made < 0 || (gradients && !model.flow.needed[v])) continue;
    std::set<int> read;
    for (NodeId reader : model.readers[v]) read.insert(unit_of(reader));
    for (int u = made + 1; !read.empty() && u < *read.rbegin(); ++u) {
      if (read.count(u) != 0) continue;
      passing[static_cast<size_t>(u)] += ElementCount(value.type.shape) * SizeOf(value.type.dtype);
    }
  }
  return passing;
}

// Per unit: does it consist of single nodes, and does the unit before it end with one?
std::vector<bool> JoinedUnits(const Model& model, const std::vector<int>& ends) {
  std::vector<bool> joined;
  int first = 0;
  for (int end : ends) {
    auto single = [&](int block) { return model.blocks[static_cast<size_t>(block)].chain < 0; };
    joined.push_back(first > 0 && single(first - 1) && single(first));
    first = end;
  }
  return joined;
}

// Every block is a unit, or for many blocks, each of kMaxUnits equal runs of cuts gives the one
// that least passes.
std::vector<int> UnitEnds(const std::vector<int64_t>& cut) {
  size_t blocks = cut.size() - 1;
  std::vector<int> ends;
  size_t parts = std::min(blocks, static_cast<size_t>(kMaxUnits));
  for (size_t part = 0; part + 1 < parts; ++part) {
    size_t first = 1 + (blocks - 1) * part / (parts - 1);
    size_t end = 1 + (blocks - 1) * (part + 1) / (parts - 1);
    auto least = std::min_element(cut.begin() + static_cast<std::ptrdiff_t>(first),
                                  cut.begin() + static_cast<std::ptrdiff_t>(end));
    ends.push_back(static_cast<int>(least - cut.begin()));
  }
  ends.push_back(static_cast<int>(blocks));
  return ends;
}

Cluster DevicesLike(const DeviceType& type, int64_t count) {
  ClusterBuilder builder;
  Group node{.name = "machine", .link = {"link", 1e10, 0}};
  AddMembers(node, {count, builder.Add(type), {}});
  Group whole{.name = "fleet", .kind = GroupKind::kCluster};
  AddMembers(whole, {1, {}, builder.Add(node)});
  return std::move(builder).Finish(whole);
}

// A plan with a stage and a device for every unit.
Plan UnitsAsStages(const Model& model, const Cluster& cluster, const std::vector<int>& ends,
                   const ModelCostOptions& options, RecomputePolicy recompute) {
  Degrees degrees;
  degrees.recompute = recompute;
  degrees.precision = options.precision;
  degrees.schedule = "gpipe";
  degrees.local_batch_statistics = options.local_batch_statistics;
  Plan plan = ExpertPlan(model, cluster, degrees);
  plan.pruning = options.pruning;
  SetOptimizer(plan, options.optimizer);
  Stage whole = plan.stages.front();
  plan.stages.clear();
  int first = 0;
  for (int end : ends) {
    Stage stage = whole;
    stage.first_block = first;
    stage.last_block = end;
    stage.mesh.first = static_cast<int64_t>(plan.stages.size());
    stage.recompute.assign(static_cast<size_t>(end - first), recompute);
    plan.stages.push_back(std::move(stage));
    first = end;
  }
  return plan;
}

// Gradients arrive at a device early: a list may hold them before its backward begins, whereas a
// shard does not.
int64_t EarlyGradients(const Program& program, const DeviceProgram& run, StageId unit) {
  int64_t bytes = 0;
  for (const Instruction& at : run.instructions) {
    if (at.op == Opcode::kRun && at.half != Half::kF) break;
    if (at.op != Opcode::kRecv) continue;
    const StageTransfer& transfer = program.transfers[at.transfer()];
    if (transfer.from_stage < unit) continue;
    bytes += BufferBytes(program, {BufferKind::kLocal, unit, transfer.to_local, 0, 0}, unit.value);
  }
  return bytes;
}

// Adds the costs of a unit from its list.
void AddUnit(const Program& program, const Prepared& prepared, const MemoryModel& memory, size_t u,
             double host_seconds, ListCosts& out) {
  const DeviceProgram& run = program.RunOf(static_cast<int64_t>(u));
  auto r = static_cast<size_t>(&run - program.runs.data());
  StageId unit = StageId::FromIndex(u);
  const StageProgram& stage = program.stages[unit];
  auto device_class = static_cast<size_t>(prepared.classes.class_of[u]);
  MemoryTimeline timeline = Replay(memory, static_cast<int64_t>(u), {.kinds = true});
  double forward = 0, again = 0, backward = 0;
  int64_t most_forward = 0, most_backward = 0, kept = 0;
  bool main_forward = false, main_backward = false;
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    const Instruction& at = run.instructions[i];
    bool runs = at.op == Opcode::kRun;
    bool back = runs && (at.half != Half::kF || at.recompute);
    bool main = runs && stage.segments[at.segment()].phase == Phase::kMain;
    main_forward |= main && !back;
    main_backward |= main && back;
    const MemoryKinds& most = timeline.most_kinds[i];
    int64_t& top = main_backward ? most_backward : most_forward;
    top = std::max(top, most.activations + most.buffers);
    // The last value before backward: what leaves the unit is freed by then.
    if (main_forward && !main_backward) kept = timeline.kinds[i].activations;
    if (at.op == Opcode::kUpdate || at.op == Opcode::kSend || at.op == Opcode::kRecv) continue;
    const SimTask& task = prepared.lists[r].tasks[i];
    double seconds = prepared.costs[device_class][static_cast<size_t>(task.cost)].seconds;
    (!back ? forward : at.recompute ? again : backward) += seconds;
  }
  int64_t early = EarlyGradients(program, run, unit);
  kept = std::max(int64_t{0}, kept - early);
  most_forward = std::max(int64_t{0}, most_forward - early);
  if (main_forward) forward = std::max(0.0, forward - host_seconds);
  if (backward > 0) backward = std::max(0.0, backward - host_seconds);
  out.forward.push_back(forward);
  out.again.push_back(again);
  out.backward.push_back(backward);
  out.most_forward.push_back(out.kept.back() + most_forward);
  out.most_backward.push_back(out.kept.back() + most_backward);
  out.kept.push_back(out.kept.back() + kept);
}

// The blocks that read a value, also through side nodes.
void ReadingBlocks(const Model& model, ValueId value, std::set<int>& blocks) {
  for (NodeId reader : model.readers[value.index()]) {
    int block = model.block_of[reader.index()];
    if (block >= 0) {
      blocks.insert(block);
      continue;
    }
    for (ValueId result : model.graph.node(reader).results) ReadingBlocks(model, result, blocks);
  }
}

// Every parameter once.
std::vector<ParameterCost> ParameterCosts(const Program& program, const std::vector<int>& ends,
                                          const ComputeCost& compute) {
  const Precision& precision = program.precision;
  std::vector<ParameterCost> out;
  std::set<ValueId> seen;
  auto add = [&](const StageProgram& stage, const Position& position, const ParameterGroup& group) {
    for (const ParameterSlot& slot : group.slots) {
      if (!seen.insert(slot.parameter).second) continue;
      int64_t all = SlotElements(stage, slot, position);
      int64_t kept = KeptElements(stage, slot, position);
      bool pruned = !slot.kept.empty();
      int64_t index = pruned ? kept * (all >= int64_t{1} << 31 ? 8 : 4) : 0;
      ParameterCost cost;
      cost.weights = all * SizeOf(precision.compute);
      cost.copied = pruned ? kept * SizeOf(precision.compute) + index : cost.weights;
      if (group.trained) {
        cost.gradients = kept * SizeOf(precision.gradients);
        cost.state = kept * precision.moments_kept * SizeOf(precision.moments) + index;
        if (pruned || precision.master != precision.compute) {
          cost.state += kept * SizeOf(precision.master);
        }
        cost.update_seconds = compute.Update(static_cast<double>(kept), precision).total();
      }
      std::set<int> blocks;
      ReadingBlocks(program.model, slot.parameter, blocks);
      for (int block : blocks) {
        auto unit =
            static_cast<int>(std::upper_bound(ends.begin(), ends.end(), block) - ends.begin());
        if (cost.units.empty() || cost.units.back() != unit) cost.units.push_back(unit);
      }
      if (!cost.units.empty()) out.push_back(std::move(cost));
    }
  };
  for (StageId s : program.stages.ids()) {
    const StageProgram& stage = program.stages[s];
    Position position = PositionIn(stage, s.value);
    for (const ParameterGroup& group : stage.groups) add(stage, position, group);
  }
  return out;
}

int64_t LargestUpdate(const MemoryModel& memory) {
  int64_t most = 0;
  for (StageId s : memory.program().stages.ids()) {
    StageMemory stage = memory.Of(s, s.value);
    for (const StageMemory::Group& group : stage.groups) most = std::max(most, group.update);
  }
  return most;
}

}  // namespace

ModelCosts KeepOnHost(ModelCosts costs, double host_bandwidth, double most_copying) {
  const ListCosts again = std::move(costs.recomputed);
  ListCosts& out = costs.recomputed = {};
  out.kept.push_back(0);
  auto kept_of = [](const ListCosts& list, size_t u) { return list.kept[u + 1] - list.kept[u]; };
  for (size_t u = 0; u < again.forward.size(); ++u) {
    auto more = static_cast<double>(kept_of(costs.whole, u) - kept_of(again, u));
    costs.keeps[u] = again.again[u] > 0 && more / host_bandwidth <= most_copying * again.again[u];
    const ListCosts& from = costs.keeps[u] ? costs.whole : again;
    out.forward.push_back(from.forward[u]);
    out.again.push_back(from.again[u]);
    out.backward.push_back(from.backward[u]);
    out.most_forward.push_back(out.kept.back() + from.most_forward[u] - from.kept[u]);
    out.most_backward.push_back(out.kept.back() + from.most_backward[u] - from.kept[u]);
    out.kept.push_back(out.kept.back() + kept_of(from, u));
  }
  return costs;
}

ModelCosts FindModelCosts(const Model& model, const Cluster& cluster,
                          const ModelCostOptions& options) {
  const DeviceType& type = cluster.type(TypeOf(cluster, DeviceId{0}));
  std::vector<int64_t> cut = CutBytes(model, false);
  ModelCosts out;
  out.block_ends = UnitEnds(cut);
  out.units = static_cast<int>(out.block_ends.size());
  out.keeps.assign(out.block_ends.size(), false);
  Cluster devices = DevicesLike(type, out.units);
  for (RecomputePolicy policy : {RecomputePolicy::kFull, RecomputePolicy::kNone}) {
    Plan plan = UnitsAsStages(model, devices, out.block_ends, options, policy);
    Program program = Lower(model, plan);
    Prepared prepared = Prepare(program, devices, options.sim);
    MemoryModel memory(program, HabitsOf(options.sim));
    ComputeCost compute(type, ConstantsFor(type, options.sim, 1), options.sim.stack,
                        program.precision);
    bool again = policy == RecomputePolicy::kFull;
    ListCosts& list = again ? out.recomputed : out.whole;
    list.kept.push_back(0);
    for (size_t u = 0; u < out.block_ends.size(); ++u) {
      AddUnit(program, prepared, memory, u, compute.Host().total(), list);
    }
    std::vector<int64_t> values = PassingBytes(program.model, out.block_ends, false);
    std::vector<int64_t> passing = PassingBytes(program.model, out.block_ends, true);
    for (size_t u = 0; u < out.block_ends.size(); ++u) {
      list.most_forward[u] += values[u];
      list.most_backward[u] += passing[u];
    }
    if (!again) continue;
    cut = CutBytes(program.model, false);
    std::vector<int64_t> gradients = CutBytes(program.model, true);
    out.cut = out.cut_gradients = {0};
    for (int end : out.block_ends) {
      out.cut.push_back(cut[static_cast<size_t>(end)]);
      out.cut_gradients.push_back(gradients[static_cast<size_t>(end)]);
    }
    out.joined = JoinedUnits(program.model, out.block_ends);
    out.parameters = ParameterCosts(program, out.block_ends, compute);
    out.run_seconds = compute.Host().total() + compute.Report().total();
    out.update_bytes = LargestUpdate(memory);
  }
  return out;
}

}  // namespace heddle
