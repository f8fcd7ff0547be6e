#include "runtime/executor/prepared_segment.h"

#include <algorithm>

#include "base/check.h"
#include "ops/traits.h"

namespace heddle {
namespace {

// Dropout and the like outside training.
std::vector<at::Tensor> KeepAll(const KernelCall& call) { return {call.operands[0]}; }

void PrepareNode(const DeviceState& state, const StageProgram& stage, const Position& position,
                 const Segment& segment, size_t n, PreparedSegment& ready) {
  const Model& model = state.program.model;
  size_t node = segment.nodes[n].index();
  const Rule& micro = state.program.micro_rules[node];
  const std::string& op = model.graph.nodes[node].op;
  bool keeps_all = state.forward_only && TraitsOf(op).randomness == Randomness::kTraining;
  ready.kernels.push_back(keeps_all ? KeepAll : FindKernel(op));
  HEDDLE_CHECK(ready.kernels.back() != nullptr, "op {} has no kernel", op);
  ready.blocks.push_back(LocalBlocks(stage.mesh, micro, stage.strategies[node], position));
  std::vector<int64_t> shifts;
  for (size_t f = 0; f < micro.factors.size(); ++f) {
    bool batch = micro.factors[f].size != model.rules[node].factors[f].size;
    shifts.push_back(batch ? micro.factors[f].size : 0);
  }
  ready.shifts.push_back(std::move(shifts));
  const std::vector<OperandRef>& operands = segment.operands[n];
  bool late = std::any_of(operands.begin(), operands.end(), [&](const OperandRef& ref) {
    return ref.input.valid() && segment.inputs[ref.input].late;
  });
  ready.late.push_back(late);
  if (late) ready.late_nodes.push_back(n);
}

// Per node, the values that no later node of the segment reads.
std::vector<std::vector<ValueId>> LastUses(const Graph& graph, const Segment& segment) {
  std::map<ValueId, size_t> last;
  for (size_t n = 0; n < segment.nodes.size(); ++n) {
    const Node& node = graph.nodes[segment.nodes[n].index()];
    for (ValueId id : node.results) last[id] = n;
    for (size_t o = 0; o < segment.operands[n].size(); ++o) {
      if (!segment.operands[n][o].input.valid()) last[node.operands[o]] = n;
    }
  }
  std::vector<std::vector<ValueId>> uses(segment.nodes.size());
  for (const auto& [id, n] : last) uses[n].push_back(id);
  return uses;
}

}  // namespace

std::vector<Block> PreparedSegment::BlocksOf(size_t node, int microbatch) const {
  std::vector<Block> moved = blocks[node];
  if (microbatch <= 0) return moved;
  for (size_t f = 0; f < moved.size(); ++f) {
    int64_t shift = shifts[node][f] * microbatch;
    moved[f] = {moved[f].begin + shift, moved[f].end + shift};
  }
  return moved;
}

PreparedSegments PrepareSegments(const DeviceState& state) {
  PreparedSegments segments;
  for (StageId s : state.run.stages) {
    const StageProgram& stage = state.stage(s);
    Position position = state.position(s);
    for (SegmentId g : stage.segments.ids()) {
      const Segment& segment = stage.segments[g];
      PreparedSegment& ready = segments[{s, g}];
      ready.segment = &segment;
      for (size_t n = 0; n < segment.nodes.size(); ++n)
        PrepareNode(state, stage, position, segment, n, ready);
      ready.last_uses = LastUses(state.program.model.graph, segment);
    }
  }
  return segments;
}

}  // namespace heddle
