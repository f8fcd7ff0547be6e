#include "runtime/executor/update_handlers.h"

namespace heddle {
namespace {

// Does this device add its part of the loss? Where devices have the same part, the first one does.
bool AddsLoss(const Local& local, const Position& position) {
  for (size_t a = 0; a < position.size(); ++a) {
    if (position[a] != 0 && local.sharding.partial[a] != PartialState::kSum) return false;
  }
  return true;
}

}  // namespace

StartedTransfer UpdateHandlers::Report(const Instruction& i) {
  at::TensorOptions number = at::TensorOptions(at::kDouble).device(state_.on);
  at::Tensor sums = at::zeros({2}, number);  // of the loss, and of the squares of gradients
  at::Tensor loss = sums[0], squares = sums[1];
  for (BufferId id : i.reads) {
    const Buffer& buffer = state_.run.buffers[id];
    if (buffer.kind != BufferKind::kLocal) {
      squares.add_(gradients_.SquaredNorm(id));
    } else if (AddsLoss(state_.stage(buffer.stage).locals[buffer.local()],
                        state_.position(buffer.stage))) {
      loss.add_(state_.buffers[id]);
    }
  }
  if (report_.early_squares().defined()) squares.add_(report_.early_squares());
  return StartCollective(state_, i, Reduction::kSum, sums, sums,
                         [this, sums] { report_.Finish(sums); });
}

void UpdateHandlers::Update(const Instruction& i) {
  GroupStore& store = state_.parameters->at(i);
  BufferId gradient = i.reads[0];
  bool as_added = gradients_.IsAsAdded(gradient);
  if (store.group().spilled) report_.CountEarly(gradients_.SquaredNorm(gradient));
  if (as_added) return store.UpdateFromAdded(report_.factors());
  at::Tensor reduced = gradients_.Flat(gradient);
  if (keep_) KeepGradients(i, reduced);
  store.Update(reduced, report_.factors());
}

StartedTransfer UpdateHandlers::GatherWeights(const Instruction& i) {
  GroupStore& store = state_.parameters->at(i);
  at::Tensor whole = store.WholeToFill();
  bool served = store.group().server >= 0;
  return StartCollective(state_, i, Reduction::kSum, served ? whole : store.Chunk(), whole,
                         [&store, whole] { store.Filled(whole); });
}

void UpdateHandlers::Fetch(const Instruction& i) {
  GroupStore& store = state_.parameters->at(i);
  if (i.writes.empty()) {
    store.optimizer().Fetch();
  } else {
    store.spilled().Fetch();
  }
}

void UpdateHandlers::Evict(const Instruction& i) {
  GroupStore& store = state_.parameters->at(i);
  if (state_.run.buffers[i.adds[0]].kind == BufferKind::kHostWeights) {
    store.spilled().Evict();
  } else {
    store.optimizer().Evict();
  }
}

void UpdateHandlers::KeepGradients(const Instruction& i, const at::Tensor& reduced) {
  GroupStore& store = state_.parameters->at(i);
  const GroupLayout& layout = store.layout();
  if (layout.chunk.size() == 0) return;
  at::Tensor whole = report_.unscale().defined() ? reduced * report_.unscale() : reduced;
  if (store.group().zero > 0) {
    whole = state_.communicators->GatherWhole(state_.program, i.stage, i.group(), state_.device,
                                              whole, layout.kept_elements);
  }
  for (ParameterPart& part : store.Parts(whole)) kept_.push_back(std::move(part));
}

std::vector<ParameterPart> HeldWeights(const DeviceState& state) {
  state.parameters->WaitForCopies();
  std::vector<ParameterPart> parts;
  for (auto& [key, store] : state.parameters->stores()) {
    at::Tensor whole = store.HeldFlat();
    if (whole.numel() == 0) continue;  // its server has them
    if (store.group().zero > 0) {
      whole = state.communicators->GatherWhole(state.program, key.first, key.second, state.device,
                                               store.MasterFlat(), store.layout().kept_elements);
    }
    for (ParameterPart& part : store.Parts(whole)) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace heddle
