#include "fleet/model_costs.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "cluster/select.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {
namespace {

Program LowerOnOne(const Model& model, const Cluster& one, const ModelCostOptions& options,
                   RecomputePolicy recompute) {
  Degrees degrees;
  degrees.recompute = recompute;
  degrees.precision = options.precision;
  degrees.local_batch_statistics = options.local_batch_statistics;
  Plan plan = ExpertPlan(model, one, degrees);
  plan.pruning = options.pruning;
  return Lower(model, plan);
}

int BlockOf(const Program& program, const Instruction& at) {
  if (at.op != Opcode::kRun) return -1;
  return program.stages[0].segments[static_cast<size_t>(at.index)].block;
}

// Goes through the list of one device.
ListCosts CostsOfList(const Program& program, const Prepared& prepared, const MemoryModel& memory,
                      const std::vector<int64_t>& cut, double& side_seconds) {
  const DeviceProgram& run = program.runs[0];
  MemoryTimeline timeline = Replay(memory, run.devices.front(), {.kinds = true});
  size_t blocks = program.model.blocks.size();
  ListCosts out;
  out.forward.assign(blocks, 0);
  out.again = out.backward = out.forward;
  out.most_forward.assign(blocks, 0);
  out.most_backward = out.most_forward;
  out.kept.assign(blocks + 1, 0);
  side_seconds = 0;
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    const Instruction& at = run.instructions[i];
    const SimTask& task = prepared.lists[0].tasks[i];
    double seconds = prepared.costs[0][static_cast<size_t>(task.cost)].seconds;
    int block = BlockOf(program, at);
    if (block < 0) {
      if (at.op != Opcode::kUpdate) side_seconds += seconds;
      continue;
    }
    auto b = static_cast<size_t>(block);
    int64_t most = timeline.most_kinds[i].activations + timeline.most_kinds[i].buffers;
    bool first = at.half == Half::kF && !at.recompute;
    (first ? out.forward : at.recompute ? out.again : out.backward)[b] += seconds;
    int64_t& top = (first ? out.most_forward : out.most_backward)[b];
    top = std::max(top, most);
    if (first) {
      out.kept[b + 1] = timeline.kinds[i].activations;
    }
  }
  // What is alive after a block is what was kept, and what passes on.
  for (size_t c = 1; c <= blocks; ++c) {
    out.kept[c] = std::max(out.kept[c - 1], out.kept[c] - cut[c]);
  }
  return out;
}

// Per cut the bytes of values that are made before it and read after it; `gradients`: of those that have one.
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

// Blocks that read a value, also through side nodes.
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

std::vector<ParameterCost> ParameterCosts(const Program& program, const ComputeCost& compute,
                                          int moments) {
  const StageProgram& stage = program.stages[0];
  const Precision& precision = program.precision;
  Position position = PositionIn(stage, program.runs[0].devices.front());
  double adam = static_cast<double>(SizeOf(precision.gradients)) +
                2 * static_cast<double>(SizeOf(precision.master) + 2 * SizeOf(precision.moments));
  double moved = adam - 2 * static_cast<double>((2 - moments) * SizeOf(precision.moments));
  std::vector<ParameterCost> out;
  for (const ParameterGroup& group : stage.groups) {
    for (const ParameterSlot& slot : group.slots) {
      int64_t all = SlotElements(stage, slot, position);
      int64_t kept = KeptElements(stage, slot, position);
      bool pruned = !slot.kept.empty();
      int64_t index = pruned ? kept * (all >= int64_t{1} << 31 ? 8 : 4) : 0;
      ParameterCost cost;
      cost.weights = all * SizeOf(precision.compute);
      cost.copied = pruned ? kept * SizeOf(precision.compute) + index : cost.weights;
      if (group.trained) {
        cost.gradients = kept * SizeOf(precision.gradients);
        cost.state = kept * moments * SizeOf(precision.moments) + index;
        if (pruned || precision.master != precision.compute) {
          cost.state += kept * SizeOf(precision.master);
        }
        cost.update_seconds =
            compute.Update(static_cast<double>(kept), precision).total() * moved / adam;
      }
      std::set<int> blocks;
      ReadingBlocks(program.model, slot.parameter, blocks);
      cost.blocks.assign(blocks.begin(), blocks.end());
      if (!cost.blocks.empty()) out.push_back(std::move(cost));
    }
  }
  return out;
}

int64_t LargestUpdate(const MemoryModel& memory, int moments) {
  int64_t most = 0;
  StageMemory stage = memory.Of(0, memory.program().runs[0].devices.front());
  for (const StageMemory::Group& group : stage.groups) most = std::max(most, group.update);
  return moments == 0 ? most / 2 : most;
}

}  // namespace

ModelCosts FindModelCosts(const Model& model, const Cluster& cluster,
                          const ModelCostOptions& options) {
  Cluster one = Select(cluster, {0});
  ModelCosts out;
  const DeviceType& type = one.device_types.front();
  for (RecomputePolicy policy : {RecomputePolicy::kFull, RecomputePolicy::kNone}) {
    Program program = LowerOnOne(model, one, options, policy);
    Prepared prepared = Prepare(program, one, options.sim);
    MemoryModel memory(program, HabitsOf(options.sim));
    bool again = policy == RecomputePolicy::kFull;
    if (again) {
      out.blocks = static_cast<int>(program.model.blocks.size());
      out.cut = CutBytes(program.model, false);
      out.cut_gradients = CutBytes(program.model, true);
      ComputeCost compute(type, ConstantsFor(type, options.sim, 1), options.sim.stack,
                          program.precision);
      out.parameters = ParameterCosts(program, compute, options.moments);
      out.run_seconds = compute.Host().total() + compute.Report().total();
      out.gradient_slack = 0;
      out.update_bytes = LargestUpdate(memory, options.moments);
    }
    (again ? out.recomputed : out.whole) =
        CostsOfList(program, prepared, memory, out.cut, out.side_seconds);
  }
  return out;
}

}  // namespace heddle
