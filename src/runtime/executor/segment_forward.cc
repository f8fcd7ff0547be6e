// Forward halves: kernels on local shards, and what backward needs of them.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <tuple>

#include "base/check.h"
#include "runtime/executor/segment_handlers.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

// Where backward begins for a value of forward. Does not keep the value, which may be summed over devices and gone.
// Undefined where no gradient passes.
at::Tensor WithoutData(const at::Tensor& value) {
  if (!value.requires_grad()) return {};
  if (value.is_leaf()) return value;
  at::Tensor handle = at::empty({}, value.options()).expand(value.sizes());
  torch::autograd::impl::set_gradient_edge(handle, torch::autograd::impl::gradient_edge(value));
  return handle;
}

// The value as autograd sees it, and the leaf that its gradient goes to. A graph keeps its leaves: the leaf has no
// data, and the value lives only as long as some node keeps it.
std::pair<at::Tensor, at::Tensor> AsInput(const at::Tensor& value) {
  at::Tensor leaf = at::empty({}, value.options()).expand(value.sizes()).set_requires_grad(true);
  at::Tensor seen = value.detach();
  torch::autograd::impl::set_gradient_edge(seen, torch::autograd::impl::gradient_edge(leaf));
  return {seen, leaf};
}

}  // namespace

SegmentHandlers::SegmentHandlers(DeviceState& state, uint64_t seed)
    : state_(state),
      seed_(seed),
      segments_(PrepareSegments(state)),
      scratch_(state.program.model.graph.values.size()) {
  for (const auto& [key, ready] : segments_) {
    for (const SegmentInput& input : ready.segment->inputs) {
      if (input.again) again_.insert({key.first, input.local});
    }
  }
}

void SegmentHandlers::Run(const Instruction& i) {
  if (i.half == Half::kF) {
    RunForward(i);
  } else if (i.half == Half::kW) {
    RunWeights(i);
  } else {
    RunBackward(i);
  }
}

// One forward half as it goes on.
struct SegmentHandlers::ForwardRun {
  const Instruction& i;
  const PreparedSegment& ready;
  const Segment& segment;
  bool keeps;  // something for backward
  SavedSegment saved = {};
  std::vector<at::Tensor> inputs = {};
  std::vector<bool> is_output = {};  // made already
};

void SegmentHandlers::RunForward(const Instruction& i) {
  const PreparedSegment& ready = segment(i);
  const Segment& segment = *ready.segment;
  ForwardRun run{i, ready, segment, i.writes.size() > segment.outputs.size()};
  at::AutoGradMode mode(run.keeps);
  std::optional<NoteKept> noting;
  if (run.keeps && state_.shares_device && i.microbatch >= 0) noting.emplace(run.saved.kept);
  TakeInputs(run);
  run.is_output.assign(segment.outputs.size(), false);
  for (size_t n = 0; n < segment.nodes.size(); ++n) RunNode(run, n);
  if (run.keeps) saved_[i.writes.back()] = std::move(run.saved);
}

void SegmentHandlers::TakeInputs(ForwardRun& run) {
  for (SegmentInputId n : run.segment.inputs.ids()) {
    const SegmentInput& input = run.segment.inputs[n];
    const auto* parameter =
        std::get_if<FromParameter>(&state_.stage(run.i.stage).locals[input.local].source);
    at::Tensor tensor =
        parameter != nullptr
            ? state_.parameters->at(run.i.stage, parameter->group).leaf(parameter->slot)
            : state_.buffers[run.i.reads[n.index()]];
    bool wanted = input.gradient.valid() || input.trained;
    // Autograd keeps nothing for a gradient that is computed elsewhere.
    if (parameter != nullptr && !wanted) tensor = tensor.detach();
    at::Tensor leaf = tensor;
    if (parameter == nullptr && run.keeps && input.gradient.valid())
      std::tie(tensor, leaf) = AsInput(tensor);
    run.inputs.push_back(tensor);
    if (run.keeps && input.again) run.saved.gathered.push_back({input.local, tensor});
    if (run.keeps) run.saved.leaves.push_back(wanted ? leaf : at::Tensor());
  }
}

void SegmentHandlers::RunNode(ForwardRun& run, size_t n) {
  const Node& node = state_.program.model.graph.nodes[run.segment.nodes[n].index()];
  std::vector<at::Tensor> operands;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    SegmentInputId input = run.segment.operands[n][o].input;
    operands.push_back(input.valid() ? run.inputs[input.index()] : scratch_[node.operands[o]]);
  }
  std::vector<at::Tensor> results = Call(run, n, std::move(operands));
  if (run.keeps && run.ready.late[n]) {
    run.saved.late_results.emplace_back();
    for (const at::Tensor& result : results)
      run.saved.late_results.back().push_back(WithoutData(result));
  }
  for (size_t r = 0; r < results.size(); ++r) scratch_[node.results[r]] = std::move(results[r]);
  GiveOutputs(run, n);
  for (ValueId id : run.ready.last_uses[n]) scratch_[id].reset();
}

std::vector<at::Tensor> SegmentHandlers::Call(const ForwardRun& run, size_t n,
                                              std::vector<at::Tensor> operands) {
  size_t index = run.segment.nodes[n].index();
  const Rule& rule = state_.program.model.rules[index];
  std::vector<Block> blocks = run.ready.BlocksOf(n, run.i.microbatch);
  RandomState random{seed_, static_cast<uint64_t>(step_),
                     static_cast<uint64_t>(state_.program.origin[index].value)};
  // libtorch has few kernels of f16 on the CPU: there it is how results are kept, not how they are computed.
  bool widens = state_.on.is_cpu() && state_.program.precision.compute == DType::kF16;
  if (widens) {
    for (at::Tensor& operand : operands) {
      if (operand.scalar_type() == at::kHalf) operand = operand.to(at::kFloat);
    }
  }
  std::vector<at::Tensor> results = run.ready.kernels[n](
      {state_.program.model.graph.nodes[index].attributes, rule, blocks, operands, random});
  for (size_t r = 0; widens && r < results.size(); ++r)
    results[r] = results[r].to(ToTorch(rule.result_dtypes[r]));
  return results;
}

// What a node has made of the segment's outputs goes to their buffers.
void SegmentHandlers::GiveOutputs(ForwardRun& run, size_t n) {
  const Graph& graph = state_.program.model.graph;
  const std::vector<SegmentOutput>& outputs = run.segment.outputs;
  for (size_t o = 0; o < outputs.size(); ++o) {
    ValueId value = state_.stage(run.i.stage).locals[outputs[o].local].value;
    if (run.is_output[o] || graph.value(value).producer != run.segment.nodes[n]) continue;
    run.is_output[o] = true;
    const at::Tensor& made = scratch_[value];
    state_.buffers[run.i.writes[o]] = made.detach();
    if (!run.keeps) continue;
    run.saved.outputs.resize(outputs.size());
    run.saved.outputs[o] = WithoutData(made);
  }
}

bool SegmentHandlers::IsGatheredAgain(const Buffer& buffer) const {
  return buffer.kind == BufferKind::kLocal && again_.count({buffer.stage, buffer.local()}) != 0;
}

void SegmentHandlers::Free(BufferId id) {
  const Buffer& buffer = state_.run.buffers[id];
  at::Tensor& tensor = state_.buffers[id];
  // What is gathered again is not kept, though autograd looks at it.
  if (IsGatheredAgain(buffer) && buffer.version == 0) ResizeStorage(tensor, 0);
  tensor.reset();
  saved_.erase(id);
}

void SegmentHandlers::Drop() {
  for (at::Tensor& value : scratch_) value.reset();
  saved_.clear();
}

}  // namespace heddle
