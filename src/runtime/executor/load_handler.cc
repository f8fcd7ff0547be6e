#include "runtime/executor/load_handler.h"

#include <optional>

#include "runtime/allocation_meter.h"

namespace heddle {

LoadHandler::LoadHandler(DeviceState& state, DataFn data) : state_(state), data_(std::move(data)) {
  if (!state.stream) return;
  inputs_ = std::make_unique<StepInputs>(state.program, state.run, state.device, state.on, data_);
}

void LoadHandler::BeginStep(int64_t step) {
  step_ = step;
  batches_.clear();
}

void LoadHandler::PrepareStep(int64_t step) {
  if (inputs_) inputs_->Ahead(step);
}

void LoadHandler::BringInputs() {
  if (inputs_) inputs_->Begin(step_);
}

void LoadHandler::Load(const Instruction& i) {
  at::Tensor& loaded = state_.buffers[i.writes[0]];
  if (inputs_) {
    loaded = inputs_->at(i);
    return;
  }
  bool shares = state_.shares_device;
  if (!batches_.count(i.microbatch)) {
    std::optional<AllocationMeter::Scope> counted;  // the host keeps these rows
    if (shares) counted.emplace(state_.parameters->host().meter);
    batches_[i.microbatch] = data_(step_, RowsOf(state_.program, i));
  }
  at::Tensor part = LoadedPart(state_.program, i, state_.device, batches_[i.microbatch]);
  loaded = shares ? part.clone() : part;
}

}  // namespace heddle
