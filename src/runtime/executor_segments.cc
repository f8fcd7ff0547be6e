// Halves of segments: kernels forward, autograd backward.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "ops/traits.h"
#include "runtime/executor_internal.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

// Where backward begins for a value of forward; does not keep the value, which may be summed over devices and gone.
// Undefined where no gradient passes.
at::Tensor WithoutData(const at::Tensor& value) {
  if (!value.requires_grad()) return {};
  if (value.is_leaf()) return value;
  at::Tensor handle = at::empty({}, value.options()).expand(value.sizes());
  torch::autograd::impl::set_gradient_edge(handle, torch::autograd::impl::gradient_edge(value));
  return handle;
}

// The value as autograd is to see it, and the leaf its gradient goes to: a graph keeps its leaves, so the leaf has no
// data, and the value lives only as long as some node keeps it.
std::pair<at::Tensor, at::Tensor> AsInput(const at::Tensor& value) {
  at::Tensor leaf = at::empty({}, value.options()).expand(value.sizes()).set_requires_grad(true);
  at::Tensor seen = value.detach();
  torch::autograd::impl::set_gradient_edge(seen, torch::autograd::impl::gradient_edge(leaf));
  return {seen, leaf};
}

// Dropout and the like outside training.
std::vector<at::Tensor> KeepAll(const KernelCall& call) { return {call.operands[0]}; }

}  // namespace

Executor::~Executor() = default;

void Executor::PrepareSegments() {
  const Model& model = program_.model;
  for (StageId s : run_.stages) {
    Position position = PositionIn(stage(s), device_);
    for (SegmentId g : stage(s).segments.ids()) {
      const Segment& at = stage(s).segments[g];
      SegmentRun& ready = segments_[{s, g}];
      ready.segment = &at;
      for (const SegmentInput& input : at.inputs) {
        if (input.again) again_.insert({s, input.local});
      }
      std::map<ValueId, size_t> last;
      for (size_t n = 0; n < at.nodes.size(); ++n) {
        size_t node = at.nodes[n].index();
        const Rule& micro = program_.micro_rules[node];
        const std::string& op = model.graph.nodes[node].op;
        bool keeps = forward_only_ && TraitsOf(op).randomness == Randomness::kTraining;
        ready.kernels.push_back(keeps ? KeepAll : FindKernel(op));
        HEDDLE_CHECK(ready.kernels.back() != nullptr, "op {} has no kernel", op);
        ready.blocks.push_back(
            LocalBlocks(stage(s).mesh, micro, stage(s).strategies[node], position));
        std::vector<int64_t> shifts;
        for (size_t f = 0; f < micro.factors.size(); ++f) {
          bool batch = micro.factors[f].size != model.rules[node].factors[f].size;
          shifts.push_back(batch ? micro.factors[f].size : 0);
        }
        ready.shifts.push_back(std::move(shifts));
        for (ValueId id : model.graph.nodes[node].results) last[id] = n;
        for (size_t o = 0; o < at.operands[n].size(); ++o) {
          if (!at.operands[n][o].input.valid()) last[model.graph.nodes[node].operands[o]] = n;
        }
        bool late = std::any_of(
            at.operands[n].begin(), at.operands[n].end(),
            [&](const OperandRef& ref) { return ref.input.valid() && at.inputs[ref.input].late; });
        ready.late.push_back(late);
        if (late) ready.late_nodes.push_back(n);
      }
      ready.last_uses.resize(at.nodes.size());
      for (const auto& [id, n] : last) ready.last_uses[n].push_back(id);
    }
  }
}

Executor::SegmentRun& Executor::segment(const Instruction& i) {
  return segments_.at({i.stage, i.segment()});
}

std::vector<Block> Executor::BlocksOf(const SegmentRun& run, size_t node, int microbatch) const {
  std::vector<Block> blocks = run.blocks[node];
  if (microbatch <= 0) return blocks;
  for (size_t f = 0; f < blocks.size(); ++f) {
    int64_t shift = run.shifts[node][f] * microbatch;
    blocks[f] = {blocks[f].begin + shift, blocks[f].end + shift};
  }
  return blocks;
}

void Executor::RunForward(const Instruction& i) {
  SegmentRun& run = segment(i);
  const Segment& at = *run.segment;
  const Graph& graph = program_.model.graph;
  bool keeps = i.writes.size() > at.outputs.size();
  at::AutoGradMode mode(keeps);
  Saved saved;
  std::optional<NoteKept> noting;
  if (keeps && !touched_.empty() && i.microbatch >= 0) noting.emplace(saved.kept);
  std::vector<at::Tensor> inputs;
  for (SegmentInputId n : at.inputs.ids()) {
    const SegmentInput& input = at.inputs[n];
    const auto* parameter = std::get_if<FromParameter>(&stage(i.stage).locals[input.local].source);
    at::Tensor tensor = parameter != nullptr
                            ? store(i.stage, parameter->group).leaf(parameter->slot)
                            : At(i.reads[n.index()]);
    bool wanted = input.gradient.valid() || input.trained;
    // Autograd keeps nothing for a gradient that is computed elsewhere.
    if (parameter != nullptr && !wanted) tensor = tensor.detach();
    at::Tensor leaf = tensor;
    if (parameter == nullptr && keeps && input.gradient.valid())
      std::tie(tensor, leaf) = AsInput(tensor);
    inputs.push_back(tensor);
    if (keeps && input.again) saved.gathered.push_back({input.local, tensor});
    if (keeps) saved.leaves.push_back(wanted ? leaf : at::Tensor());
  }
  std::vector<at::Tensor> operands;
  std::vector<bool> is_output(at.outputs.size(), false);
  for (size_t n = 0; n < at.nodes.size(); ++n) {
    size_t index = at.nodes[n].index();
    const Node& node = graph.nodes[index];
    operands.clear();
    for (size_t o = 0; o < node.operands.size(); ++o) {
      SegmentInputId input = at.operands[n][o].input;
      operands.push_back(input.valid() ? inputs[input.index()]
                                       : scratch_[node.operands[o].index()]);
    }
    std::vector<Block> blocks = BlocksOf(run, n, i.microbatch);
    RandomState random{options_.seed, static_cast<uint64_t>(step_),
                       static_cast<uint64_t>(program_.origin[index].value)};
    const Rule& rule = program_.model.rules[index];
    // libtorch has few kernels of f16 on the CPU: there it is how results are kept, not how they are computed.
    bool widens = options_.device.is_cpu() && program_.precision.compute == DType::kF16;
    if (widens) {
      for (at::Tensor& operand : operands) {
        if (operand.scalar_type() == at::kHalf) operand = operand.to(at::kFloat);
      }
    }
    std::vector<at::Tensor> results =
        run.kernels[n]({node.attributes, rule, blocks, operands, random});
    for (size_t r = 0; widens && r < results.size(); ++r)
      results[r] = results[r].to(ToTorch(rule.result_dtypes[r]));
    if (keeps && run.late[n]) {
      saved.late_results.emplace_back();
      for (const at::Tensor& result : results)
        saved.late_results.back().push_back(WithoutData(result));
    }
    for (size_t r = 0; r < results.size(); ++r)
      scratch_[node.results[r].index()] = std::move(results[r]);
    for (size_t o = 0; o < at.outputs.size(); ++o) {
      ValueId value = stage(i.stage).locals[at.outputs[o].local].value;
      if (is_output[o] || graph.value(value).producer != at.nodes[n]) continue;
      is_output[o] = true;
      const at::Tensor& made = scratch_[value.index()];
      At(i.writes[o]) = made.detach();
      if (keeps) {
        saved.outputs.resize(at.outputs.size());
        saved.outputs[o] = WithoutData(made);
      }
    }
    for (ValueId id : run.last_uses[n]) scratch_[id.index()].reset();
  }
  if (keeps) saved_[i.writes.back().index()] = std::move(saved);
}

void Executor::GiveGradient(const Instruction& i, const SegmentInput& input, const at::Tensor& leaf,
                            at::Tensor gradient) {
  const StageProgram& at = stage(i.stage);
  if (input.trained) {
    const FromParameter& stored = at.locals[input.local].As<FromParameter>();
    const ParameterGroup& group = at.groups[stored.group];
    AxisMask complete = group.reduce_axes & ~input.partial_axes;
    Position position = PositionIn(at, device_);
    for (size_t a = 0; a < position.size(); ++a) {
      if (Contains(complete, a) && position[a] != 0) return;
    }
    if (gradient.defined()) store(i.stage, stored.group).AddGradient(stored.slot, gradient);
    return;
  }
  if (!gradient.defined()) gradient = at::zeros_like(leaf);
  const Local& target = at.locals[input.gradient];
  const BufferIds& list = target.once ? i.adds : i.writes;
  for (BufferId id : list) {
    const Buffer& buffer = run_.buffers[id];
    if (buffer.kind != BufferKind::kLocal || buffer.local() != input.gradient) continue;
    at::Tensor& held = At(id);
    // Gradients of one value in one sharding are added up; what autograd gave may be shared, so a copy is kept.
    held = held.defined() && target.once ? held + gradient : gradient;
    return;
  }
  HEDDLE_CHECK(false, "a gradient has no buffer");
}

bool Executor::IsGatheredAgain(const Buffer& buffer) const {
  return buffer.kind == BufferKind::kLocal && again_.count({buffer.stage, buffer.local()}) != 0;
}

// What was gathered again takes the place of what forward gathered; segments that read the same share it.
void Executor::Restore(const Instruction& i, const Saved& saved) {
  for (const Saved::Gathered& gathered : saved.gathered) {
    for (BufferId id : i.reads) {
      if (!id.valid() || gathered.tensor.storage().nbytes() != 0) continue;
      const Buffer& buffer = run_.buffers[id];
      if (buffer.kind == BufferKind::kLocal && buffer.local() == gathered.local &&
          buffer.version == 1)
        MoveStorage(At(id), gathered.tensor);
    }
  }
}

void Executor::RunBackward(const Instruction& i) {
  SegmentRun& run = segment(i);
  const Segment& at = *run.segment;
  size_t saved_at = at.outputs.size();
  Saved& saved = saved_.at(i.reads[saved_at].index());
  Restore(i, saved);
  std::vector<at::Tensor> outputs, seeds;
  for (size_t o = 0; o < at.outputs.size(); ++o) {
    if (!at.outputs[o].gradient.valid() || !saved.outputs[o].requires_grad()) continue;
    const at::Tensor& made = saved.outputs[o];
    outputs.push_back(made);
    at::Tensor seed;
    if (i.reads[o].valid()) {
      seed = At(i.reads[o]).to(made.scalar_type());
    } else {
      seed = loss_scale_ ? loss_scale_->value().to(made.scalar_type()).expand_as(made)
                         : at::ones_like(made);
    }
    seeds.push_back(seed);
  }
  bool split = i.half == Half::kB;
  std::vector<at::Tensor> wanted;
  std::vector<SegmentInputId> input_of;
  for (SegmentInputId n : at.inputs.ids()) {
    if (!saved.leaves[n.index()].defined() || (split && at.inputs[n].late)) continue;
    input_of.push_back(n);
    wanted.push_back(saved.leaves[n.index()]);
  }
  size_t plain = wanted.size();
  if (split) {
    for (const std::vector<at::Tensor>& results : saved.late_results) {
      for (const at::Tensor& result : results) {
        if (result.requires_grad()) wanted.push_back(result);
      }
    }
  }
  std::vector<at::Tensor> found(wanted.size());
  if (!outputs.empty() && !wanted.empty()) {
    found = torch::autograd::grad(outputs, wanted, seeds, /*retain_graph=*/split,
                                  /*create_graph=*/false,
                                  /*allow_unused=*/true);
  }
  if (split) {
    size_t next = plain;
    for (const std::vector<at::Tensor>& results : saved.late_results) {
      saved.late_gradients.emplace_back();
      for (const at::Tensor& result : results) {
        saved.late_gradients.back().push_back(result.requires_grad() ? found[next++]
                                                                     : at::Tensor());
      }
    }
  }
  for (size_t n = 0; n < plain; ++n) GiveGradient(i, at.inputs[input_of[n]], wanted[n], found[n]);
}

void Executor::RunWeights(const Instruction& i) {
  SegmentRun& run = segment(i);
  const Segment& at = *run.segment;
  Saved& saved = saved_.at(i.reads[0].index());
  for (size_t l = 0; l < run.late_nodes.size(); ++l) {
    std::vector<at::Tensor> outputs, seeds, wanted;
    std::vector<SegmentInputId> input_of;
    for (size_t r = 0; r < saved.late_results[l].size(); ++r) {
      if (!saved.late_gradients[l][r].defined()) continue;
      outputs.push_back(saved.late_results[l][r]);
      seeds.push_back(saved.late_gradients[l][r]);
    }
    for (const OperandRef& ref : at.operands[run.late_nodes[l]]) {
      if (!ref.input.valid() || !at.inputs[ref.input].late) continue;
      input_of.push_back(ref.input);
      wanted.push_back(saved.leaves[ref.input.index()]);
    }
    std::vector<at::Tensor> found(wanted.size());
    if (!outputs.empty()) {
      found = torch::autograd::grad(outputs, wanted, seeds, /*retain_graph=*/true,
                                    /*create_graph=*/false,
                                    /*allow_unused=*/true);
    }
    for (size_t n = 0; n < wanted.size(); ++n)
      GiveGradient(i, at.inputs[input_of[n]], wanted[n], found[n]);
  }
}

}  // namespace heddle
