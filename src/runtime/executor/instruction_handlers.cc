#include "runtime/executor/instruction_handlers.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace heddle {

InstructionHandlers::InstructionHandlers(DeviceState& state, StepReport& report, DataFn data,
                                         Options options)
    : state_(state),
      loads_(state, std::move(data)),
      segments_(state, options.seed),
      reshards_(state),
      messages_(state),
      gradients_(state, options.keep_gradients),
      updates_(state, gradients_, report, options.keep_gradients),
      spills_(Spills(state.program)) {
  if (LossScale* scale = report.loss_scale(); scale != nullptr)
    segments_.set_loss_scale(scale->value());
}

void InstructionHandlers::BeginStep(int64_t step) {
  segments_.BeginStep(step);
  updates_.BeginStep();
  loads_.BeginStep(step);
}

std::optional<StartedTransfer> InstructionHandlers::Start(const Instruction& i) {
  switch (i.op) {
    case Opcode::kLoad:
      loads_.Load(i);
      return std::nullopt;
    case Opcode::kRun:
      segments_.Run(i);
      return std::nullopt;
    case Opcode::kReshard:
      return reshards_.Reshard(i);
    case Opcode::kSum:
      RunSum(state_, i);
      return std::nullopt;
    case Opcode::kAddGradient:
      gradients_.AddGradient(i);
      return std::nullopt;
    case Opcode::kFactorGradient:
      gradients_.ComputeFactorGradient(i);
      return std::nullopt;
    case Opcode::kSend:
      return messages_.Send(i);
    case Opcode::kRecv:
      return messages_.Recv(i);
    case Opcode::kReduceGradients:
      return gradients_.ReduceGradients(i);
    case Opcode::kReduceShards:
      return gradients_.ReduceShards(i);
    case Opcode::kSyncTied:
      return gradients_.SyncTied(i);
    case Opcode::kReport:
      return updates_.Report(i);
    case Opcode::kUpdate:
      updates_.Update(i);
      return std::nullopt;
    case Opcode::kGatherWeights:
      return updates_.GatherWeights(i);
    case Opcode::kFetch:
      updates_.Fetch(i);
      return std::nullopt;
    case Opcode::kEvict:
      updates_.Evict(i);
      return std::nullopt;
  }
  HEDDLE_CHECK(false, "unknown instruction {}", static_cast<int>(i.op));
  return std::nullopt;
}

void InstructionHandlers::AwaitFetched(const Instruction& i) {
  if (!spills_) return;
  for (BufferId id : i.reads) {
    if (!id.valid() || state_.run.buffers[id].kind != BufferKind::kGathered) continue;
    GroupStore& store = state_.parameters->at(state_.run.buffers[id]);
    if (store.group().spilled) store.spilled().Arrived();
  }
}

void InstructionHandlers::Free(BufferId id) {
  segments_.Free(id);
  const Buffer& buffer = state_.run.buffers[id];
  bool fetched = buffer.kind == BufferKind::kGathered || buffer.kind == BufferKind::kOptimizer;
  if (fetched && state_.shares_device && !state_.on.is_cpu()) {
    release_after_visit_.push_back(id);
  } else {
    ReleaseFetched(buffer);
  }
}

void InstructionHandlers::ReleaseAfterVisit() {
  for (BufferId id : release_after_visit_) ReleaseFetched(state_.run.buffers[id]);
  release_after_visit_.clear();
}

void InstructionHandlers::ReleaseFetched(const Buffer& buffer) {
  if (buffer.kind == BufferKind::kGathered) state_.parameters->at(buffer).ReleaseWhole();
  if (buffer.kind == BufferKind::kOptimizer) state_.parameters->at(buffer).optimizer().Release();
}

void InstructionHandlers::Drop() {
  const std::vector<BufferId>& persistent = state_.run.persistent;
  for (BufferId id : state_.buffers.ids()) {
    if (std::find(persistent.begin(), persistent.end(), id) == persistent.end())
      state_.buffers[id].reset();
  }
  segments_.Drop();
  for (auto& [key, store] : state_.parameters->stores()) store.gradients().Drop();
}

}  // namespace heddle
