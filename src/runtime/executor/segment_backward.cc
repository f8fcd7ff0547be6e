// Backward halves: what autograd gives, to gradient buffers and parameters.
#include <torch/csrc/autograd/autograd.h>

#include "base/check.h"
#include "runtime/executor/segment_handlers.h"
#include "runtime/parameters/group_layout.h"
#include "runtime/torch_compat.h"

namespace heddle {

void SegmentHandlers::GiveGradient(const Instruction& i, const SegmentInput& input,
                                   const at::Tensor& leaf, at::Tensor gradient) {
  const StageProgram& at = state_.stage(i.stage);
  if (input.trained) {
    const FromParameter& stored = at.locals[input.local].As<FromParameter>();
    if (!AddsGradient(at.groups[stored.group], input.partial_axes, state_.position(i.stage)))
      return;
    if (gradient.defined())
      state_.parameters->at(i.stage, stored.group).gradients().Add(stored.slot, gradient);
    return;
  }
  if (!gradient.defined()) gradient = at::zeros_like(leaf);
  const Local& target = at.locals[input.gradient];
  const BufferIds& list = target.once ? i.adds : i.writes;
  for (BufferId id : list) {
    const Buffer& buffer = state_.run.buffers[id];
    if (buffer.kind != BufferKind::kLocal || buffer.local() != input.gradient) continue;
    at::Tensor& held = state_.buffers[id];
    // Gradients of one value in one sharding are added up; what autograd gave may be shared, so a copy is kept.
    held = held.defined() && target.once ? held + gradient : gradient;
    return;
  }
  HEDDLE_CHECK(false, "a gradient has no buffer");
}

// What was gathered again takes the place of what forward gathered; segments that read the same share it.
void SegmentHandlers::ReturnGathered(const Instruction& i, const SavedSegment& saved) {
  for (const SavedSegment::Gathered& gathered : saved.gathered) {
    for (BufferId id : i.reads) {
      if (!id.valid() || gathered.tensor.storage().nbytes() != 0) continue;
      const Buffer& buffer = state_.run.buffers[id];
      if (buffer.kind == BufferKind::kLocal && buffer.local() == gathered.local &&
          buffer.version == 1)
        MoveStorage(state_.buffers[id], gathered.tensor);
    }
  }
}

// The gradient of an output: what came for it; of the loss, the loss scale.
at::Tensor SegmentHandlers::SeedOf(BufferId gradient, const at::Tensor& output) {
  if (gradient.valid()) return state_.buffers[gradient].to(output.scalar_type());
  return loss_scale_.defined() ? loss_scale_.to(output.scalar_type()).expand_as(output)
                               : at::ones_like(output);
}

void SegmentHandlers::RunBackward(const Instruction& i) {
  const Segment& at = *segment(i).segment;
  SavedSegment& saved = saved_.at(i.reads[at.outputs.size()]);
  ReturnGathered(i, saved);
  std::vector<at::Tensor> outputs, seeds;
  for (size_t o = 0; o < at.outputs.size(); ++o) {
    if (!at.outputs[o].gradient.valid() || !saved.outputs[o].requires_grad()) continue;
    outputs.push_back(saved.outputs[o]);
    seeds.push_back(SeedOf(i.reads[o], saved.outputs[o]));
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

void SegmentHandlers::RunWeights(const Instruction& i) {
  const PreparedSegment& ready = segment(i);
  const Segment& at = *ready.segment;
  SavedSegment& saved = saved_.at(i.reads[0]);
  for (size_t l = 0; l < ready.late_nodes.size(); ++l) {
    std::vector<at::Tensor> outputs, seeds, wanted;
    std::vector<SegmentInputId> input_of;
    for (size_t r = 0; r < saved.late_results[l].size(); ++r) {
      if (!saved.late_gradients[l][r].defined()) continue;
      outputs.push_back(saved.late_results[l][r]);
      seeds.push_back(saved.late_gradients[l][r]);
    }
    for (const OperandRef& ref : at.operands[ready.late_nodes[l]]) {
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
